"""What one block cache would have kept of a trace, exactly, and far faster than block by block.

The definition: requests in order; a hit is the longest leading run of a request's blocks that is cached; afterwards its
blocks are the most recent ones, its head more recent than its tail; the least recent block goes first. Where an id
repeats inside a request its first occurrence decides recency, and hits count leading places. What a request's blocks
are, which of them may hit, and whether one that is too large is served at all is said by `Flags`.

The idea: call the last request that touched a block its owner. By recency, blocks stand in order of owner, newest
first, and within an owner from head to tail. What a cache of any size holds is then said by one boundary: the oldest
owner that has blocks left, and how many of its places. A request takes over stretches of earlier owners (`Stretch`),
which do not depend on the capacity: they are prepared once.
"""

from collections import OrderedDict
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field

from simworkers.agents.traffic.flags import RECORDED, Flags
from simworkers.agents.traffic.ownership import Space, Stretch
from simworkers.agents.traffic.traces import Trace
from simworkers.agents.traffic.uses import uses_in_order

FRAGMENTED = 0.25  # stretches a block reference; above, walking blocks is faster than keeping stretches


@dataclass(frozen=True)
class Hits:
    """What a replay found. hit_tokens: Σ min(hit blocks × block size, input tokens).

    Requests that were refused count in nothing but their own two fields. The hit rate is hit_tokens ÷ (input_tokens +
    refused_tokens): they found nothing.
    """

    hit_blocks: int
    hit_tokens: int
    input_tokens: int
    per_request: tuple[int, ...]  # hit blocks, in the order of the replay; 0 of one that was refused
    refused: tuple[int, ...] = ()  # numbers in the order of the replay
    refused_tokens: int = 0


@dataclass
class Prepared:
    """A trace as stretches; request n leaves sizes[n] different blocks.

    first_places[n]: only where ids repeat, the place at which each different block first stands.
    """

    flags: Flags
    capacity: int | None  # for which requests were refused
    stretches: list[list[Stretch]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    first_places: dict[int, list[int]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)  # blocks of each request, repeated ones included
    caps: list[int] = field(default_factory=list)  # most blocks of each that may hit
    block_sizes: list[int] = field(default_factory=list)
    input_tokens: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    largest: int = 0  # blocks of the largest prompt

    @property
    def block_references(self) -> int:
        return sum(self.lengths)

    @property
    def num_stretches(self) -> int:
        return sum(len(row) for row in self.stretches)

    def add(self, stretches: list[Stretch], size: int, length: int, cap: int) -> None:
        self.stretches.append(stretches)
        self.sizes.append(size)
        self.lengths.append(length)
        self.caps.append(cap)

    def serves(self, capacity: int | None) -> bool:
        """Whether a cache of this capacity refuses just the requests that were left out."""
        if self.flags.clip_oversize or capacity == self.capacity:
            return True
        return not self.refused and (capacity is None or capacity >= self.largest)


def prepare(trace: Trace, flags: Flags = RECORDED, capacity: int | None = None) -> Prepared:
    """Find every request's stretches; looks only at blocks that differ from the request before in the same session.

    capacity: blocks of the cache to come; told only where flags refuse larger requests, which then take nothing over.
    """
    spaces: dict[Hashable, Space] = {}
    prepared = Prepared(flags, capacity)
    refuse_above = None if flags.clip_oversize else capacity
    for number, use in enumerate(uses_in_order(trace, flags)):
        prepared.block_sizes.append(use.session.block_size)
        prepared.input_tokens.append(use.request.input_tokens)
        prepared.largest = max(prepared.largest, use.asked)
        if refuse_above is not None and use.needs_more_than(refuse_above):
            prepared.refused.append(number)
            prepared.add([], 0, 0, 0)
            continue
        space = spaces.setdefault(use.session.space, Space())
        stretches, places = space.take(number, use.kept)
        if places is not None:
            prepared.first_places[number] = places
        prepared.add(stretches, len(space.chain), len(use.kept), use.cap)
    return prepared


def replay(prepared: Prepared, capacity: int | None) -> Hits:
    """Hits of a cache of `capacity` blocks; None: endless. ValueError below 1, or where others were refused."""
    _check(capacity)
    if not prepared.serves(capacity):
        raise ValueError(f"capacity_blocks: prepared for {prepared.capacity}, not {capacity}")
    touch = _Boundary(prepared.sizes, capacity).touch
    hits = [touch(number, stretches) for number, stretches in enumerate(prepared.stretches)]
    for number, places in prepared.first_places.items():  # leading different blocks → leading places
        found = hits[number]
        hits[number] = places[found] if found < len(places) else prepared.lengths[number]
    hits = list(map(min, hits, prepared.caps))
    return _sum(hits, prepared.input_tokens, prepared.block_sizes, prepared.refused)


def _check(capacity: int | None) -> None:
    if capacity is not None and capacity < 1:
        raise ValueError(f"capacity_blocks: must be at least 1, not {capacity}")


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
        hit, is_leading, total = 0, True, self.total + self.sizes[number]
        for place, owner, start, length in stretches:
            there = length if owner > self.oldest else self._cached(owner, start, length)
            if is_leading and place == hit:
                hit += there
                is_leading = there == length
            else:
                is_leading = False
            if owner >= self.oldest:
                self.held[owner] -= there
                total -= there
                self.taken[owner].append((start, length))
        self.held[number] = self.sizes[number]
        self.total = total
        if total > self.capacity:
            self._evict(total - self.capacity)
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


def replay_blocks(trace: Trace, capacity: int | None, flags: Flags = RECORDED) -> Hits:
    """The same, block by block: for traces in which hardly two blocks lie as they lay before."""
    _check(capacity)
    cache: OrderedDict[tuple[int, int], None] = OrderedDict()
    hits, tokens, block_sizes = [], [], []
    refused: list[int] = []
    for number, use in enumerate(uses_in_order(trace, flags)):
        tokens.append(use.request.input_tokens)
        block_sizes.append(use.session.block_size)
        if not flags.clip_oversize and capacity is not None and use.needs_more_than(capacity):
            refused.append(number)
            hits.append(0)
            continue
        keys = [(use.session.space, block) for block in use.kept.tolist()]
        hits.append(min(_leading(cache, keys), use.cap))
        for key in reversed(keys):  # the head becomes the most recent
            cache[key] = None
            cache.move_to_end(key)
        while capacity is not None and len(cache) > capacity:
            cache.popitem(last=False)
    return _sum(hits, tokens, block_sizes, refused)


def replay_trace(trace: Trace, capacity: int | None, flags: Flags = RECORDED) -> Hits:
    """By stretches, or block by block where those would be dearer."""
    prepared = prepare(trace, flags, capacity)
    if prepared.num_stretches > FRAGMENTED * prepared.block_references:
        return replay_blocks(trace, capacity, flags)
    return replay(prepared, capacity)


def _leading(cache: Container[tuple[int, int]], keys: list[tuple[int, int]]) -> int:
    return next((place for place, key in enumerate(keys) if key not in cache), len(keys))


def _sum(hits: list[int], tokens: list[int], block_sizes: list[int], refused: list[int]) -> Hits:
    found = sum(min(hit * size, most) for hit, size, most in zip(hits, block_sizes, tokens, strict=True))
    lost = sum(tokens[number] for number in refused)
    return Hits(sum(hits), found, sum(tokens) - lost, tuple(hits), tuple(refused), lost)
