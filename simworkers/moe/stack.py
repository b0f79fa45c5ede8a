"""The MoE layers that really run: embeddings, residual stream, experts in their slots.

Routing comes from outside, as integers; hidden states are float32 and decide nothing that is counted.
T tokens, k experts a token, H hidden.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from simworkers.moe.experts import HIDDEN, Dispatch, load_experts, run_experts
from simworkers.moe.gate import LOGIT_SCALE
from simworkers.moe.params import MoeParams
from simworkers.rng import Stream
from simworkers.text import BUCKETS


class ExpertStack:
    """Weights of one checkpoint. `slots` is replaced by whoever shuffles; `known` [L][E] are checksums of experts.

    tick: a sign of life, from inside long work.
    """

    def __init__(self, params: MoeParams, device: str, tick: Callable[[], None]) -> None:
        self.device, self.tick = device, tick
        seed = params.checkpoint_seed
        self.slots, self.known = load_experts(params.num_layers, params.num_experts, seed, device, tick)
        words = Stream(seed, "hidden").words(BUCKETS * HIDDEN // 8)
        integers = np.frombuffer(words.tobytes(), dtype=np.int8).reshape(BUCKETS, HIDDEN)
        self._table = torch.from_numpy(integers.astype(np.float32) / 64).to(device)

    def embed(self, tokens: NDArray[np.int64]) -> torch.Tensor:
        """[T, H] what enters the first layer. tokens: [T] ids."""
        return self._table[torch.from_numpy(tokens).to(self.device)]

    def layer(
        self, hidden: torch.Tensor, logits: NDArray[np.int32], sent: Dispatch, layer: int
    ) -> torch.Tensor:
        """[T, H] after one MoE layer with its residual, normalised. logits: [T, k] of the chosen experts."""
        gate_weight = torch.softmax(torch.from_numpy(logits.astype(np.float32)) * LOGIT_SCALE, dim=1)
        answer = run_experts(hidden, gate_weight.to(self.device), sent, self.slots, layer, self.tick)
        return torch.nn.functional.rms_norm(hidden + answer, (HIDDEN,), eps=1e-6)
