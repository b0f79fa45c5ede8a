"""Blocks that always stand together, found in a whole workload, so that a cache can handle them as one.

A run is a stretch of block ids that every prompt holds wholly and in this order, or not at all. A context that only
grows becomes one run a turn; where two contexts part, a run ends; shuffled ids become runs of one block, which is a
cache block by block. Nothing here depends on routing, time or capacity.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass
class RunBook:
    """All runs of a workload, numbered in order of first appearance."""

    lengths: list[int] = field(default_factory=list)  # blocks of each run


@dataclass(frozen=True)
class Chain:
    """A prompt as runs. Leading blocks found in a cache are leading *different* ids; where ids repeat, `places` says at
    which place of the prompt each different one first stands."""

    runs: tuple[int, ...]
    places: tuple[int, ...] | None = None

    def leading_places(self, found: int, length: int) -> int:
        """found: leading different blocks that a cache has. length: of the prompt in blocks, repeats included."""
        if self.places is None:
            return found
        return self.places[found] if found < len(self.places) else length

    def distinct_before(self, place: int) -> int:
        """Different ids before a place of the prompt."""
        return place if self.places is None else bisect_left(self.places, place)


def split_into_runs(
    streams: Sequence[Sequence[Ids]], ends: Iterable[tuple[int, int, int]], book: RunBook
) -> list[list[Chain]]:
    """Chains of prompts that share block ids: streams of growing contexts, each prompt [n] ids.

    ends: further (stream, prompt, place) before which a run has to end. Only what differs from the prompt before in a
    stream is looked at.
    """
    distinct = [_without_repeats(stream) for stream in streams]
    last = [_last_before(*distinct[stream][prompt], place) for stream, prompt, place in ends]
    starts = _starts([[ids for ids, _ in stream] for stream in distinct], last)
    known: dict[int, tuple[int, int]] = {}  # first id → (run, length)
    return [list(_chains(stream, starts, known, book)) for stream in distinct]


def common_length(old: Ids, new: Ids) -> int:
    """Length of the common beginning; views that begin at one place of one array need no look."""
    length = min(len(old), len(new))
    if old.base is not None and old.base is new.base and _place(old) == _place(new):
        return length
    differ = old[:length] != new[:length]
    first = int(differ.argmax()) if length else 0
    return first if length and differ[first] else length


def _place(ids: Ids) -> tuple[int, tuple[int, ...]]:
    """(address of the first element, bytes from one to the next): equal for views that hold the same to begin with."""
    address: int = ids.__array_interface__["data"][0]
    return address, ids.strides


def _without_repeats(stream: Sequence[Ids]) -> list[tuple[Ids, tuple[int, ...] | None]]:
    """Each prompt's first occurrences, and their places where any id repeats."""
    found: list[tuple[Ids, tuple[int, ...] | None]] = []
    before, members, was_plain = np.empty(0, dtype=np.int64), set[int](), True
    for ids in stream:
        same = common_length(before, ids) if was_plain else 0
        members.difference_update(before[same:].tolist()) if was_plain else members.clear()
        tail = ids[same:].tolist()
        was_plain = len(set(tail)) == len(tail) and members.isdisjoint(tail)
        if was_plain:
            found.append((ids, None))
            members.update(tail)
        else:
            firsts = dict(zip(reversed(ids.tolist()), range(len(ids) - 1, -1, -1), strict=True))
            places = tuple(sorted(firsts.values()))
            found.append((ids[list(places)], places))
        before = ids
    return found


def _last_before(ids: Ids, places: tuple[int, ...] | None, place: int) -> int:
    """The last different id before a place of a prompt."""
    return int(ids[Chain((), places).distinct_before(place) - 1])


def _starts(streams: Sequence[Sequence[Ids]], ends: Iterable[int]) -> set[int]:
    """Ids that start a run: whatever stands first, or does not always follow the same id, or follows an end."""
    after: dict[int, int] = {}
    before: dict[int, int] = {}
    starts: set[int] = set()
    last = set(ends)
    for stream in streams:
        previous = np.empty(0, dtype=np.int64)
        for ids in stream:
            same = common_length(previous, ids)
            previous = ids
            if not len(ids):
                continue
            last.add(int(ids[-1]))
            tail = ids[max(same - 1, 0) :].tolist()
            if not same:
                starts.add(tail[0])
            for one, following in pairwise(tail):
                if after.setdefault(one, following) != following:
                    starts.update((following, after[one]))
                if before.setdefault(following, one) != one:
                    starts.add(following)
    starts.update(after[one] for one in last if one in after)
    return starts


def _chains(
    stream: Sequence[tuple[Ids, tuple[int, ...] | None]],
    starts: set[int],
    known: dict[int, tuple[int, int]],
    book: RunBook,
) -> Iterable[Chain]:
    before, runs, stops = np.empty(0, dtype=np.int64), list[int](), list[int]()
    for ids, places in stream:
        same = common_length(before, ids)
        kept = bisect_right(stops, same)
        at = stops[kept - 1] if kept else 0
        fresh = list(_runs_in(ids, at, starts, known, book))
        runs = runs[:kept] + fresh
        stops = stops[:kept] + [at + stop for stop in accumulate(book.lengths[run] for run in fresh)]
        before = ids
        yield Chain(tuple(runs), places)


def _runs_in(
    ids: Ids, at: int, starts: set[int], known: dict[int, tuple[int, int]], book: RunBook
) -> Iterable[int]:
    """Runs of ids[at:], which begins one."""
    tail = ids[at:].tolist()
    place = 0
    while place < len(tail):
        head = tail[place]
        if head not in known:
            stop = place + 1
            while stop < len(tail) and tail[stop] not in starts:
                stop += 1
            known[head] = (len(book.lengths), stop - place)
            book.lengths.append(stop - place)
        run, length = known[head]
        yield run
        place += length
