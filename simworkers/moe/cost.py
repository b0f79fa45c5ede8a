"""Modelled time of an MoE step: roofline per slot, links per GPU, and the slowest GPU of each layer.

No overlap of compute with links, no launch overhead, every token copy sent by itself. L layers, G GPUs, S slots.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simworkers.hardware import ACTIVATION_BYTES, BYTES_PER_WEIGHT, GpuProfile, ModelProfile, Roofline
from simworkers.moe.placement import FloatArray, IntArray


@dataclass(frozen=True)
class StepCost:
    """Seconds of one step, [L, G] each. A GPU's own time is their sum; a layer lasts as long as its slowest GPU."""

    hbm_s: FloatArray  # slots whose weights take longer to read than their tokens to compute
    flops_s: FloatArray  # all other slots
    links_s: FloatArray

    @property
    def own_s(self) -> FloatArray:
        return self.hbm_s + self.flops_s + self.links_s

    @property
    def layer_s(self) -> FloatArray:
        """[L]"""
        return self.own_s.max(axis=1)  # type: ignore[no-any-return]

    @property
    def barrier_s(self) -> FloatArray:
        """[L, G] waiting for the slowest."""
        return self.layer_s[:, None] - self.own_s

    @property
    def step_s(self) -> float:
        return float(self.layer_s.sum())


class CostModel:
    """Prices one step on a GPU and model profile."""

    def __init__(
        self, gpu: GpuProfile, model: ModelProfile, precision: str, num_gpus: int, num_nodes: int
    ) -> None:
        self.roofline = Roofline.of(gpu, model, precision)
        self.num_gpus = num_gpus
        # Dispatch sends a hidden state at the weights' precision, combine returns one in bf16.
        copy_bytes = model.hidden * (BYTES_PER_WEIGHT[precision] + ACTIVATION_BYTES)
        self.nvlink_s_per_copy = copy_bytes / gpu.nvlink_bytes_per_s
        self.network_s_per_copy = copy_bytes / gpu.network_bytes_per_s
        node = np.arange(num_gpus) // (num_gpus // num_nodes)
        same_node = node[:, None] == node[None, :]
        self.over_nvlink = same_node & ~np.eye(num_gpus, dtype=bool)  # [G, G]
        self.over_network = ~same_node

    def price(self, slot_tokens: IntArray, sent: IntArray) -> StepCost:
        """slot_tokens: [L, S] copies in each slot; sent: [L, G, G] copies from GPU to GPU."""
        arithmetic_s = slot_tokens * self.roofline.token_s
        reading = (slot_tokens > 0) & (arithmetic_s < self.roofline.read_s)
        hbm_s = np.where(reading, self.roofline.read_s, 0.0)
        flops_s = np.where(reading, 0.0, arithmetic_s)
        nvlink_s = self._links(sent, self.over_nvlink) * self.nvlink_s_per_copy
        network_s = self._links(sent, self.over_network) * self.network_s_per_copy
        return StepCost(
            self._per_gpu(hbm_s), self._per_gpu(flops_s), np.add(nvlink_s, network_s, dtype=np.float64)
        )

    def expected_link_s(self, received: FloatArray) -> FloatArray:
        """[G] link seconds of a token whose home is any GPU alike. received: [G] copies that each GPU gets of it."""
        sent = np.tile(received / self.num_gpus, (1, self.num_gpus, 1))  # [1, G, G]
        nvlink_s = self._links(sent, self.over_nvlink) * self.nvlink_s_per_copy
        network_s = self._links(sent, self.over_network) * self.network_s_per_copy
        link_s: FloatArray = nvlink_s[0] + network_s[0]
        return link_s

    def _per_gpu(self, per_slot: FloatArray) -> FloatArray:
        return per_slot.reshape(len(per_slot), self.num_gpus, -1).sum(axis=2)  # type: ignore[no-any-return]

    @staticmethod
    def _links(sent: NDArray[Any], wires: NDArray[np.bool_]) -> NDArray[Any]:
        """[L, G] copies on a GPU's busier direction: links carry both directions at once."""
        across = sent * wires
        busier: NDArray[Any] = np.maximum(across.sum(axis=1), across.sum(axis=2))
        return busier
