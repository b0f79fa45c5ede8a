"""The live shuffle: weights move between slots while the engine goes on. Between two steps, so none is dropped."""

from dataclasses import dataclass

import numpy as np

from simworkers.moe.experts import ExpertSlots
from simworkers.moe.placement import IntArray, Placement


@dataclass(frozen=True)
class Move:
    """What a shuffle carries. L layers, S slots of the new placement, G GPUs."""

    source: IntArray  # [L, S] slot of the old placement that each new slot copies
    moved: IntArray  # [G] slots, over layers, whose expert came from another GPU

    @property
    def moved_slots(self) -> int:
        return int(self.moved.sum())


def plan_move(old: Placement, new: Placement) -> Move:
    """Copy from the same GPU where it holds the expert, else from the expert's first slot."""
    gpus = new.num_gpus
    source = np.empty_like(new.experts)
    moved = np.zeros(gpus, dtype=np.int64)
    old_gpu = np.arange(old.experts.shape[1]) // (old.experts.shape[1] // gpus)
    new_gpu = np.arange(new.experts.shape[1]) // (new.experts.shape[1] // gpus)
    for layer, experts in enumerate(new.experts):
        held = old.experts[layer]
        here = np.full((gpus, new.num_experts), -1, dtype=np.int64)  # [G, E] slot on that GPU
        here[old_gpu[::-1], held[::-1]] = np.arange(len(held))[::-1]  # the lowest slot is written last
        first = np.full(new.num_experts, -1, dtype=np.int64)
        first[held[::-1]] = np.arange(len(held))[::-1]
        local = here[new_gpu, experts]
        source[layer] = np.where(local >= 0, local, first[experts])
        moved += np.bincount(new_gpu[local < 0], minlength=gpus)
    return Move(source, moved)


def move_weights(slots: ExpertSlots, move: Move) -> ExpertSlots:
    """The slots of the new placement, each copied from a slot of the old one; one layer is held twice at a time."""
    moved = ExpertSlots([])
    for layer, source in enumerate(move.source):
        moved.weights.append(slots.weights[layer][source])
    return moved
