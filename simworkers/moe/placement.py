"""Which expert lies in which slot, and the load that follows for every GPU."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ClusterShape:
    """Slots, GPUs, nodes and expert groups. Slot s lies on GPU s // (slots/GPUs), GPU g on node g // (GPUs/nodes).

    Groups are runs of neighbouring experts. Raises ValueError, "field: what is wrong", where they do not divide.
    """

    num_slots: int
    num_gpus: int
    num_nodes: int = 1
    num_groups: int = 1

    def __post_init__(self) -> None:
        for name in ("num_slots", "num_gpus", "num_nodes", "num_groups"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1")
        if self.num_slots % self.num_gpus:
            raise ValueError(f"num_slots: {self.num_slots} slots do not fill {self.num_gpus} GPUs evenly")
        if self.num_gpus % self.num_nodes:
            raise ValueError(f"num_gpus: {self.num_gpus} GPUs do not fill {self.num_nodes} nodes evenly")

    @property
    def slots_per_gpu(self) -> int:
        return self.num_slots // self.num_gpus

    @property
    def groups_divide(self) -> bool:
        """Whether there are several nodes and each can hold the same number of whole groups."""
        return self.num_nodes > 1 and self.num_groups % self.num_nodes == 0


@dataclass(frozen=True)
class Placement:
    """L layers, S slots, E experts, G GPUs."""

    experts: IntArray  # [L, S] expert in each slot
    num_experts: int
    num_gpus: int

    def copies(self) -> IntArray:
        """[L, E] slots that hold each expert."""
        layers = self.experts.shape[0]
        flat = self.experts + self.num_experts * np.arange(layers)[:, None]
        counts = np.bincount(flat.ravel(), minlength=layers * self.num_experts)
        return counts.reshape(layers, self.num_experts)

    def gpu_load(self, load: NDArray[np.generic]) -> FloatArray:
        """[L, G] load of every GPU if a copy carries load ÷ copies. load: [L, E]."""
        share = load / np.maximum(self.copies(), 1)
        per_slot = np.take_along_axis(share, self.experts, axis=1)
        per_gpu: FloatArray = per_slot.reshape(len(share), self.num_gpus, -1).sum(axis=2)
        return per_gpu

    def max_over_mean(self, load: NDArray[np.generic]) -> FloatArray:
        """[L] max ÷ mean over GPUs; a layer without load counts 1.0. load: [L, E]."""
        return max_over_mean(self.gpu_load(load))

    def first_unplaced(self) -> tuple[int, int] | None:
        """(layer, expert) of the first expert that no slot holds, or None."""
        missing = np.argwhere(self.copies() == 0)
        return (int(missing[0, 0]), int(missing[0, 1])) if len(missing) else None


def max_over_mean(gpu_load: NDArray[np.generic]) -> FloatArray:
    """[...] max ÷ mean over the last axis, GPUs; 1.0 where nothing was loaded."""
    mean = gpu_load.mean(axis=-1)
    largest = gpu_load.max(axis=-1)
    ratio: FloatArray = np.divide(largest, mean, out=np.ones(mean.shape), where=mean > 0)
    return ratio


def place_contiguously(num_layers: int, num_experts: int, num_gpus: int) -> Placement:
    """Expert e in slot e: what one has before any balancing, without copies."""
    slots = np.tile(np.arange(num_experts, dtype=np.int64), (num_layers, 1))
    return Placement(slots, num_experts, num_gpus)
