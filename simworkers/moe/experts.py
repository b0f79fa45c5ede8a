"""Real SwiGLU experts in physical slots, and the way of the tokens to them and back.

The experts that run are small (hidden 32, inner 32); the cost model accounts those of the model profile instead.
T tokens, k experts a token, A = T·k token copies, E experts, S slots, L layers, H hidden, I inner.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from simworkers.moe.placement import IntArray, Placement
from simworkers.rng import Stream

HIDDEN = 32
INNER = 32
_WEIGHTS = 3 * HIDDEN * INNER


@dataclass
class ExpertSlots:
    """Weights as they lie in the slots. A slot's row is gate and up [H, 2·I], then down [I, H], flattened."""

    weights: list[torch.Tensor]  # L tensors [S, 3·H·I] float32

    def checksums(self, layer: int) -> list[int]:
        """[S] CRC-32 of the bytes in each slot."""
        rows = self.weights[layer].cpu().numpy()
        return [zlib.crc32(row.tobytes()) for row in rows]

    def matrices(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(gate and up [S, H, 2·I], down [S, I, H])."""
        rows = self.weights[layer]
        split = 2 * HIDDEN * INNER
        return rows[:, :split].view(-1, HIDDEN, 2 * INNER), rows[:, split:].view(-1, INNER, HIDDEN)


def load_experts(
    num_layers: int,
    num_experts: int,
    checkpoint_seed: int,
    device: str,
    tick: Callable[[], None] = lambda: None,
) -> tuple[ExpertSlots, list[list[int]]]:
    """Expert e in slot e, and [L][E] the checksum by which its weights are known ever after."""
    slots, known = ExpertSlots([]), []
    for layer in range(num_layers):
        words = Stream(checkpoint_seed, "experts", layer).words(num_experts * _WEIGHTS // 8)
        integers = np.frombuffer(words.tobytes(), dtype=np.int8).reshape(num_experts, _WEIGHTS)
        # Uniform in ±1, scaled so that a projection neither grows nor shrinks its input much.
        slots.weights.append(
            torch.from_numpy(integers.astype(np.float32) / (128 * (HIDDEN / 3) ** 0.5)).to(device)
        )
        known.append(slots.checksums(layer))
        tick()
    return slots, known


@dataclass(frozen=True)
class Dispatch:
    """Token copies of one layer in slot order. Copy a belongs to token a // k and is its (a % k)-th choice."""

    order: IntArray  # [A] copies sorted by slot
    slot: IntArray  # [A] slot of order's copies
    counts: IntArray  # [S] copies in each slot


class SlotTable:
    """Which slots hold each expert of one layer, ready for dispatch."""

    def __init__(self, placement: Placement, layer: int) -> None:
        experts = placement.experts[layer]
        self.num_slots = len(experts)
        self.copies: IntArray = np.bincount(experts, minlength=placement.num_experts)  # [E]
        by_expert = np.argsort(experts, kind="stable")
        rank = np.arange(self.num_slots) - np.repeat(np.cumsum(self.copies) - self.copies, self.copies)
        self.slots = np.full(
            (placement.num_experts, int(self.copies.max())), -1, dtype=np.int64
        )  # [E, copies]
        self.slots[experts[by_expert], rank] = by_expert


def dispatch(experts: NDArray[np.int16], table: SlotTable) -> Dispatch:
    """Send every copy to a slot of its expert; the copies of an expert take its tokens in turn. experts: [T, k]."""
    flat = experts.reshape(-1)
    order = np.argsort(flat, kind="stable")
    expert = flat[order]
    counts = np.bincount(flat, minlength=len(table.copies))
    turn = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    # An expert without a slot would divide by nothing; it keeps -1 and the run's checks report it.
    slot = table.slots[expert, turn % np.maximum(table.copies, 1)[expert]]
    by_slot = np.argsort(slot.astype(np.int16), kind="stable")
    order, slot = order[by_slot], slot[by_slot]
    return Dispatch(order, slot, np.bincount(slot[slot >= 0], minlength=table.num_slots))


def count_pairs(origin: IntArray, to: IntArray, gpus: int) -> IntArray:
    """[G, G] copies from GPU to GPU. origin, to: [A]; a copy that arrived nowhere has a negative `to`."""
    arrived = to >= 0
    pairs = np.bincount((origin * gpus + to)[arrived], minlength=gpus * gpus)
    return pairs.reshape(gpus, gpus)


def run_experts(
    hidden: torch.Tensor,
    gate_weight: torch.Tensor,
    sent: Dispatch,
    slots: ExpertSlots,
    layer: int,
    tick: Callable[[], None] = lambda: None,
) -> torch.Tensor:
    """[T, H] what combine returns: the experts' outputs of each token, weighed and added in choice order.

    hidden: [T, H]; gate_weight: [T, k]. tick: called per slot.
    """
    tokens, top_k = gate_weight.shape
    order = torch.from_numpy(sent.order).to(hidden.device)
    arrived = hidden[order // top_k]  # [A, H] in slot order
    answered = torch.empty_like(arrived)
    gate_up, down = slots.matrices(layer)
    start = int((sent.slot < 0).sum())
    for slot in np.flatnonzero(sent.counts):
        stop = start + int(sent.counts[slot])
        gate, up = (arrived[start:stop] @ gate_up[slot]).chunk(2, dim=1)
        torch.mm(torch.nn.functional.silu(gate) * up, down[slot], out=answered[start:stop])
        start = stop
        tick()
    returned = torch.zeros(tokens * top_k, HIDDEN, device=hidden.device)
    returned[order] = answered
    return (returned.view(tokens, top_k, HIDDEN) * gate_weight[:, :, None]).sum(dim=1)
