"""The sums of the engine, in two orders: as one batch, or row by row with the same steps for a row in any company.

A library GEMM may add in another order for another number of rows, so that a token's last bits depend on who else is in
the batch. Row by row every operation has shapes that depend on the row alone, and so has its result. Attention then
runs over blocks of KEY_BLOCK keys that begin at multiples of it, and joins their partial sums in order.

T rows of the batch, C keys of a sequence, H query heads, K key-value heads, R = H ÷ K, D numbers a head.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

KEY_BLOCK = 64


@dataclass(frozen=True)
class Segment:
    """Rows of a flat batch that belong to one sequence: its tokens first … first + rows − 1."""

    row: int
    rows: int
    first: int
    slots: NDArray[np.int64]  # [first + rows] where its keys and values lie


@dataclass(frozen=True)
class Padded:
    """Sequences of one row each, side by side: B of them, C keys in the longest."""

    rows: torch.Tensor  # [B]
    slots: torch.Tensor  # [B, C]; what lies behind a sequence's end is hidden
    hidden: torch.Tensor  # [B, 1, 1, C]


class Layout:
    """How the rows of a batch belong to sequences; what all layers share is made once."""

    def __init__(self, segments: Sequence[Segment], device: torch.device) -> None:
        self.device = device
        self._segments = segments
        self._decoding = [segment for segment in segments if segment.rows == 1]

    @cached_property
    def segments(self) -> list[tuple[Segment, torch.Tensor]]:
        """Every segment with its slots."""
        return [(segment, self._tensor(segment.slots)) for segment in self._segments]

    @cached_property
    def chunks(self) -> list[tuple[Segment, torch.Tensor]]:
        """Those of more than one row."""
        return [(segment, self._tensor(segment.slots)) for segment in self._segments if segment.rows > 1]

    @cached_property
    def decoding(self) -> Padded | None:
        """Those of one row, if there are any."""
        if not self._decoding:
            return None
        contexts = np.array([len(segment.slots) for segment in self._decoding])
        slots = np.zeros((len(contexts), contexts.max()), dtype=np.int64)
        for padded, segment in zip(slots, self._decoding, strict=True):
            padded[: len(segment.slots)] = segment.slots
        hidden = np.arange(slots.shape[1]) >= contexts[:, None]
        rows = np.array([segment.row for segment in self._decoding])
        return Padded(self._tensor(rows), self._tensor(slots), self._tensor(hidden)[:, None, None])

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device)


ReadKv = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]  # slots → keys, values [C, K, D]
Rowwise = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # ([t, …], positions [t]) → [t, …]


class Arithmetic(Protocol):
    """How per-token functions and attention are carried out."""

    def map(self, function: Rowwise, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """function over the rows of x: [T, …] → [T, …]"""

    def attend(self, queries: torch.Tensor, layout: Layout, read: ReadKv) -> torch.Tensor:
        """queries: [T, H, D] → [T, H, D]"""


class Batched:
    """Everything at once: decoding sequences together, each chunk of a prompt by itself."""

    def map(self, function: Rowwise, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return function(x, positions)

    def attend(self, queries: torch.Tensor, layout: Layout, read: ReadKv) -> torch.Tensor:
        mixed = torch.empty_like(queries)
        if layout.decoding is not None:
            rows = layout.decoding.rows
            mixed[rows] = attend_last(queries[rows], layout.decoding, read)
        for chunk, slots in layout.chunks:
            rows_of = slice(chunk.row, chunk.row + chunk.rows)
            mixed[rows_of] = attend_causally(queries[rows_of], *read(slots), chunk.first)
        return mixed


class PerRow:
    """One row after the other, bit-equal for every batch, chunk size and place in memory."""

    def map(self, function: Rowwise, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        if not len(x):
            return function(x, positions)
        return torch.cat([function(x[t : t + 1], positions[t : t + 1]) for t in range(len(x))])

    def attend(self, queries: torch.Tensor, layout: Layout, read: ReadKv) -> torch.Tensor:
        mixed = torch.empty_like(queries)
        for segment, slots in layout.segments:
            keys, values = read(slots)
            for t in range(segment.rows):
                seen = segment.first + t + 1
                mixed[segment.row + t] = attend_in_key_blocks(
                    queries[segment.row + t], keys[:seen], values[:seen]
                )
        return mixed


def attend_causally(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, first: int
) -> torch.Tensor:
    """queries: [t, H, D] of tokens first … first + t − 1; keys, values: [C, K, D] → [t, H, D]"""
    count, heads, dim = queries.shape
    kv_heads, context = keys.shape[1], len(keys)
    grouped = queries.view(count, kv_heads, -1, dim).permute(1, 2, 0, 3)  # [K, R, t, D]
    scores = grouped.flatten(1, 2) @ keys.permute(1, 2, 0) / math.sqrt(dim)  # [K, R·t, C]
    own = torch.arange(first, first + count, device=queries.device)[:, None]
    hidden = torch.arange(context, device=queries.device) > own  # [t, C]
    scores = scores.view(kv_heads, -1, count, context).masked_fill(hidden, -math.inf)
    mixed = torch.softmax(scores, dim=-1).flatten(1, 2) @ values.permute(1, 0, 2)  # [K, R·t, D]
    return mixed.view(kv_heads, -1, count, dim).permute(2, 0, 1, 3).reshape(count, heads, dim)


def attend_last(queries: torch.Tensor, padded: Padded, read: ReadKv) -> torch.Tensor:
    """One query of each sequence over all its keys. queries: [B, H, D] → [B, H, D]"""
    batch, heads, dim = queries.shape
    keys, values = (
        kv.view(*padded.slots.shape, -1, dim) for kv in read(padded.slots.view(-1))
    )  # [B, C, K, D]
    grouped = queries.view(batch, keys.shape[2], -1, dim)  # [B, K, R, D]
    scores = grouped @ keys.permute(0, 2, 3, 1) / math.sqrt(dim)  # [B, K, R, C]
    weights = torch.softmax(scores.masked_fill(padded.hidden, -math.inf), dim=-1)
    return (weights @ values.permute(0, 2, 1, 3)).reshape(batch, heads, dim)


def attend_in_key_blocks(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """query: [H, D]; keys, values: [C, K, D] → [H, D], by running maximum and sum over blocks of KEY_BLOCK keys."""
    heads, dim = query.shape
    kv_heads = keys.shape[1]
    grouped = query.view(kv_heads, -1, dim)  # [K, R, D]
    highest = query.new_full((kv_heads, heads // kv_heads, 1), -math.inf)
    total = torch.zeros_like(highest)
    mixed = torch.zeros_like(grouped)
    for start in range(0, len(keys), KEY_BLOCK):
        block_keys = keys[start : start + KEY_BLOCK].permute(1, 2, 0).contiguous()  # [K, D, c]
        block_values = values[start : start + KEY_BLOCK].permute(1, 0, 2).contiguous()  # [K, c, D]
        scores = grouped @ block_keys / math.sqrt(dim)  # [K, R, c]
        new_highest = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
        weights, shrink = torch.exp(scores - new_highest), torch.exp(highest - new_highest)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        mixed = mixed * shrink + weights @ block_values
        highest = new_highest
    return (mixed / total).reshape(heads, dim)


BY_NAME: dict[str, Arithmetic] = {"batched": Batched(), "per_row": PerRow()}
