"""From logits to the next token. Draws are integers by counter, so that a sequence does not depend on its company."""

import torch

from simworkers.engine.request import Sampling
from simworkers.rng import Stream


def choose(logits: torch.Tensor, sampling: Sampling, index: int) -> tuple[int, float]:
    """Token for output `index` and its log-probability under the model itself (temperature 1). logits: [V]

    The lowest token wins a tie. Sampling inverts the cumulated distribution at a 53-bit number drawn by (seed, index).
    """
    logprobs = torch.log_softmax(logits.to(torch.float64), dim=-1)
    if sampling.temperature == 0:
        token = int(logits.argmax())
    else:
        scaled = torch.softmax(logprobs / sampling.temperature, dim=-1).cumsum(dim=-1)
        at = (int(Stream(sampling.seed, "sample", index).words(1)[0]) >> 11) * 2.0**-53
        token = int(torch.searchsorted(scaled, at * float(scaled[-1]), right=True))
    return token, float(logprobs[token])
