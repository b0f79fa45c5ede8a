"""What one block cache would have kept of a trace, exactly, and far faster than block by block.

The definition: requests in order; a hit is the longest leading run of a request's blocks that is cached; afterwards its
blocks are the most recent ones, its head more recent than its tail; the least recent block goes first. Where an id
repeats inside a request its first occurrence decides recency, and hits count leading places.

The idea: call the last request that touched a block its owner. By recency, blocks stand in order of owner, newest
first, and within an owner from head to tail. What a cache of any size holds is then said by one boundary: the oldest
owner that has blocks left, and how many of its places. A request takes over stretches of earlier owners (`Stretch`),
which do not depend on the capacity: they are prepared once.
"""

from collections import OrderedDict
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from simworkers.agents.traces import Trace

Stretch = tuple[int, int, int, int]  # place in the request, owner, place in the owner, length
FRAGMENTED = 0.25  # stretches a block reference; above, walking blocks is faster than keeping stretches


@dataclass(frozen=True)
class Hits:
    """What a replay found. hit_tokens: Σ min(hit blocks × block size, input tokens)."""

    hit_blocks: int
    hit_tokens: int
    input_tokens: int
    per_request: tuple[int, ...]  # hit blocks, in the order of the replay


@dataclass(frozen=True)
class Prepared:
    """A trace as stretches; request n has sizes[n] different blocks.

    first_places[n]: only where ids repeat, the place at which each different block first stands.
    """

    stretches: list[list[Stretch]]
    sizes: list[int]
    first_places: dict[int, list[int]]
    lengths: list[int]  # blocks of each request, repeated ones included
    block_sizes: list[int]
    input_tokens: list[int]

    @property
    def block_references(self) -> int:
        return sum(self.lengths)

    @property
    def num_stretches(self) -> int:
        return sum(len(row) for row in self.stretches)


def prepare(trace: Trace) -> Prepared:
    """Find every request's stretches; looks only at blocks that differ from the request before in the same session."""
    spaces: dict[Hashable, _Space] = {}
    prepared = Prepared([], [], {}, [], [], [])
    for number, (session, request) in enumerate(trace.in_order()):
        space = spaces.setdefault(session.space, _Space())
        stretches, places = space.take(number, request.blocks)
        if places is not None:
            prepared.first_places[number] = places
        prepared.stretches.append(stretches)
        prepared.sizes.append(len(space.chain))
        prepared.lengths.append(len(request.blocks))
        prepared.block_sizes.append(session.block_size)
        prepared.input_tokens.append(request.input_tokens)
    return prepared


@dataclass
class _Space:
    """Block ids of one session (or of all that share ids): who owns which, as the trace goes by."""

    chain: NDArray[np.int64] = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )  # of the last request
    members: set[int] = field(default_factory=set)  # of the chain
    fallen: dict[int, tuple[int, int]] = field(default_factory=dict)  # others: id → (owner, place)
    owner: int = -1  # of the chain

    def take(self, number: int, blocks: NDArray[np.int64]) -> tuple[list[Stretch], list[int] | None]:
        """Request `number` touches these blocks. (its stretches, first places if ids repeat)"""
        same = _common(self.chain, blocks)
        stretches: list[Stretch] = [(0, self.owner, 0, same)] if same else []
        dropped = self.chain[same:].tolist()
        self.fallen.update(
            zip(dropped, zip(repeat(self.owner), range(same, len(self.chain)), strict=False), strict=True)
        )
        self.members.difference_update(dropped)
        tail, places = blocks[same:].tolist(), None
        if len(set(tail)) < len(tail) or not self.members.isdisjoint(tail):
            tail, places = self._without_repeats(tail, same)
        stretches += self._taken_back(tail, same)
        self.members.update(tail)
        self.chain = np.concatenate([blocks[:same], np.array(tail, dtype=np.int64)]) if places else blocks
        self.owner = number
        return stretches, places

    def _taken_back(self, tail: list[int], at: int) -> list[Stretch]:
        """Stretches of earlier owners in the blocks from place `at` on, which leave `fallen`."""
        stretches: list[Stretch] = []
        owner = place = start = length = 0
        pop = self.fallen.pop
        for here, block in enumerate(tail, start=at):
            found = pop(block, None)
            if found is None:
                continue
            if length and found == (owner, start + length) and here == place + length:
                length += 1
                continue
            if length:
                stretches.append((place, owner, start, length))
            (owner, start), place, length = found, here, 1
        if length:
            stretches.append((place, owner, start, length))
        return stretches

    def _without_repeats(self, tail: list[int], same: int) -> tuple[list[int], list[int]]:
        """(the tail's first occurrences, the place of every different block of the request)"""
        kept, places, seen = [], list(range(same)), set(self.members)
        for place, block in enumerate(tail, start=same):
            if block not in seen:
                seen.add(block)
                kept.append(block)
                places.append(place)
        return kept, places


def _common(old: NDArray[np.int64], new: NDArray[np.int64]) -> int:
    """Length of the common beginning."""
    length = min(len(old), len(new))
    differ = old[:length] != new[:length]
    first = int(differ.argmax()) if length else 0
    return first if length and differ[first] else length


def replay(prepared: Prepared, capacity: int | None) -> Hits:
    """Hits of a cache of `capacity` blocks; None: endless. ValueError below 1."""
    if capacity is not None and capacity < 1:
        raise ValueError(f"capacity_blocks: must be at least 1, not {capacity}")
    cache = _Boundary(prepared.sizes, capacity)
    hits = []
    for number, stretches in enumerate(prepared.stretches):
        found = cache.touch(number, stretches)
        places = prepared.first_places.get(number)
        if places is not None:  # leading different blocks → leading places
            found = places[found] if found < len(places) else prepared.lengths[number]
        hits.append(found)
    return _count(prepared, hits)


class _Boundary:
    """The blocks that an LRU holds: all of owners newer than `oldest`, and of that one its places below `end`."""

    def __init__(self, sizes: Sequence[int], capacity: int | None) -> None:
        self.sizes = sizes
        self.capacity = sum(sizes) + 1 if capacity is None else capacity
        self.held = [0] * len(sizes)  # blocks that each owner still has in the cache
        self.taken: list[list[tuple[int, int]]] = [
            [] for _ in sizes
        ]  # (place, length) that later owners took
        self.total = 0
        self.oldest, self.end = 0, sizes[0] if sizes else 0

    def touch(self, number: int, stretches: list[Stretch]) -> int:
        """Request `number` comes. How many of its leading different blocks were there."""
        hit, is_leading = 0, True
        for place, owner, start, length in stretches:
            there = self._cached(owner, start, length)
            is_leading &= place == hit
            if is_leading:
                hit += there
                is_leading = there == length
            if owner >= self.oldest:
                self.held[owner] -= there
                self.total -= there
                self.taken[owner].append((start, length))
        self.held[number] = self.sizes[number]
        self.total += self.sizes[number]
        if self.total > self.capacity:
            self._evict(self.total - self.capacity)
        return hit

    def _cached(self, owner: int, start: int, length: int) -> int:
        """Of an owner's places start … start + length − 1, none taken so far, those that are in the cache."""
        if owner > self.oldest:
            return length
        if owner < self.oldest:
            return 0
        return min(length, max(0, self.end - start))

    def _evict(self, excess: int) -> None:
        self.total -= excess
        while self.held[self.oldest] <= excess:
            excess -= self.held[self.oldest]
            self.held[self.oldest] = 0
            self.taken[self.oldest].clear()
            self.oldest += 1
            self.end = self.sizes[self.oldest]
            if not excess:
                return
        self.held[self.oldest] -= excess
        for start, length in sorted(self.taken[self.oldest], reverse=True):
            if start >= self.end:
                continue
            own = self.end - start - length  # between this stretch and what lies behind it
            if own >= excess:
                break
            excess -= max(own, 0)
            self.end = start
        self.end -= excess


def replay_blocks(trace: Trace, capacity: int | None) -> Hits:
    """The same, block by block: for traces in which hardly two blocks lie as they lay before."""
    cache: OrderedDict[tuple[int, int], None] = OrderedDict()
    hits, tokens, block_sizes = [], [], []
    for session, request in trace.in_order():
        keys = [(session.space, block) for block in request.blocks.tolist()]
        hits.append(_leading(cache, keys))
        for key in reversed(keys):  # the head becomes the most recent
            cache[key] = None
            cache.move_to_end(key)
        while capacity is not None and len(cache) > capacity:
            cache.popitem(last=False)
        tokens.append(request.input_tokens)
        block_sizes.append(session.block_size)
    return _sum(hits, tokens, block_sizes)


def replay_trace(trace: Trace, capacity: int | None) -> Hits:
    """By stretches, or block by block where those would be dearer."""
    prepared = prepare(trace)
    if prepared.num_stretches > FRAGMENTED * prepared.block_references:
        return replay_blocks(trace, capacity)
    return replay(prepared, capacity)


def _leading(cache: Container[tuple[int, int]], keys: list[tuple[int, int]]) -> int:
    return next((place for place, key in enumerate(keys) if key not in cache), len(keys))


def _count(prepared: Prepared, hits: list[int]) -> Hits:
    return _sum(hits, prepared.input_tokens, prepared.block_sizes)


def _sum(hits: list[int], tokens: list[int], block_sizes: list[int]) -> Hits:
    found = sum(min(hit * size, most) for hit, size, most in zip(hits, block_sizes, tokens, strict=True))
    return Hits(sum(hits), found, sum(tokens), tuple(hits))
