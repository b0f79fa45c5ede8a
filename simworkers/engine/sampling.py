"""From logits to the next tokens. Draws are integers by counter, so that a sequence does not depend on its company."""

from collections.abc import Sequence

import torch

from simworkers.engine.request import Sampling
from simworkers.rng import Stream


def choose(
    logits: torch.Tensor, logprobs: torch.Tensor, wanted: Sequence[tuple[Sampling, int]]
) -> list[tuple[int, float]]:
    """A token for each row, and its log-probability under the model itself (temperature 1).

    logits, logprobs: [N, V]; wanted: how to choose, and the index of the output, for each row.
    The lowest token wins a tie.
    """
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    for row, (sampling, index) in enumerate(wanted):
        if sampling.temperature:
            tokens[row] = draw(logprobs[row], sampling, index)
    chosen = logprobs.gather(1, torch.tensor(tokens, dtype=torch.int64, device=logprobs.device)[:, None])[
        :, 0
    ]
    return list(zip(tokens, chosen.tolist(), strict=True))


def draw(logprobs: torch.Tensor, sampling: Sampling, index: int) -> int:
    """Invert the cumulated distribution at a 53-bit number that (seed, index) alone decide. logprobs: [V]"""
    cumulated = torch.softmax(logprobs / sampling.temperature, dim=-1).cumsum(dim=-1)
    at = (int(Stream(sampling.seed, "sample", index).words(1)[0]) >> 11) * 2.0**-53
    return int(torch.searchsorted(cumulated, at * float(cumulated[-1]), right=True))
