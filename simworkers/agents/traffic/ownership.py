"""Who touched each block last, as a trace goes by: what a request takes over from which earlier one."""

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from simworkers.agents.traffic.runs import Ids, common_length

MOST_PARTS = 16  # of a request, each a piece or a row of new ids; with more, single blocks are cheaper
Stretch = tuple[int, int, int, int]  # place in the request, owner, place in the owner, length


@dataclass(frozen=True)
class _Piece:
    """Consecutive blocks of an earlier request that nobody has touched since."""

    owner: int
    start: int  # place in the owner
    ids: Ids


@dataclass
class _Ranges:
    """Ids that came, as ranges without a gap."""

    lows: list[int] = field(default_factory=list)
    highs: list[int] = field(default_factory=list)

    def add(self, ids: Ids) -> int:
        """Take in the leading ids that follow on one another and have not come yet. How many."""
        first = int(ids[0])
        at = bisect_right(self.lows, first)
        if at and self.highs[at - 1] >= first:
            return 0
        gaps = ids[1:] != ids[:-1] + 1
        count = int(gaps.argmax()) + 1 if gaps.any() else len(ids)
        if at < len(self.lows):
            count = int(ids[:count].searchsorted(self.lows[at]))
        last = int(ids[count - 1])
        if at and self.highs[at - 1] == first - 1:
            self.highs[at - 1] = last
        else:
            self.lows.insert(at, first)
            self.highs.insert(at, last)
        return count


@dataclass
class Space:
    """Block ids of one session, or of all that share ids.

    Blocks that the last request did not touch lie in pieces, found by their first id, as long as new ids follow on one
    another and what comes back begins where a piece begins, which it does where an id stands for all that precedes it.
    From the first request on for which this fails, every one of them is kept by itself.
    """

    chain: Ids = field(
        default_factory=lambda: np.empty(0, dtype=np.int64)
    )  # of the last request, without repeats
    owner: int = -1  # of the chain
    pieces: dict[int, _Piece] | None = field(default_factory=dict)  # by first id; None: see `fallen`
    seen: _Ranges = field(default_factory=_Ranges)  # ids so far, while there are pieces
    fallen: dict[int, tuple[int, int]] = field(default_factory=dict)  # id → (owner, place)
    members: set[int] = field(default_factory=set)  # of the chain, where there are no pieces

    def take(self, number: int, blocks: Ids) -> tuple[list[Stretch], list[int] | None]:
        """Request `number` touches these blocks. (its stretches, first places if ids repeat)"""
        same = common_length(self.chain, blocks)
        stretches: list[Stretch] = [(0, self.owner, 0, same)] if same else []
        settled, chain, places = same, blocks, None
        if self.pieces is not None:
            settled = self._take_pieces(blocks, same, stretches)
            if settled < len(blocks):
                self._scatter(blocks[:settled])
        else:
            self._drop(same)
        if self.pieces is None:
            chain, places = self._take_single(blocks, settled, stretches)
        self.chain, self.owner = chain, number
        return stretches, places

    def _take_pieces(self, blocks: Ids, same: int, stretches: list[Stretch]) -> int:
        """Appends what is taken over. The place up to which that could be told."""
        assert self.pieces is not None
        if same < len(self.chain):
            rest = self.chain[same:]
            self.pieces[int(rest[0])] = _Piece(self.owner, same, rest)
        place = same
        for _ in range(MOST_PARTS):
            if place == len(blocks):
                break
            tail = blocks[place:]
            if (piece := self.pieces.pop(int(tail[0]), None)) is not None:
                place += self._take_piece(piece, place, tail, stretches)
            elif new := self.seen.add(tail):
                place += new
            else:
                break
        return place

    def _take_piece(self, piece: _Piece, place: int, tail: Ids, stretches: list[Stretch]) -> int:
        """Takes over as much of a piece as the tail begins with."""
        assert self.pieces is not None
        length = common_length(piece.ids, tail)
        stretches.append((place, piece.owner, piece.start, length))
        if length < len(piece.ids):
            rest = piece.ids[length:]
            self.pieces[int(rest[0])] = _Piece(piece.owner, piece.start + length, rest)
        return length

    def _scatter(self, settled: Ids) -> None:
        """Every block of the pieces by itself."""
        assert self.pieces is not None
        for piece in self.pieces.values():
            self._keep(piece.ids.tolist(), piece.owner, piece.start)
        self.pieces, self.members = None, set(settled.tolist())

    def _drop(self, same: int) -> None:
        dropped = self.chain[same:].tolist()
        self._keep(dropped, self.owner, same)
        self.members.difference_update(dropped)

    def _keep(self, ids: list[int], owner: int, start: int) -> None:
        places = range(start, start + len(ids))
        self.fallen.update(zip(ids, zip(repeat(owner), places, strict=False), strict=True))

    def _take_single(
        self, blocks: Ids, settled: int, stretches: list[Stretch]
    ) -> tuple[Ids, list[int] | None]:
        """Takes over what lies behind the settled places, block by block. (chain, first places if ids repeat)"""
        tail, places = blocks[settled:].tolist(), None
        chain: NDArray[np.int64] = blocks
        if len(set(tail)) < len(tail) or not self.members.isdisjoint(tail):
            tail, places = self._without_repeats(tail, settled)
            chain = np.concatenate([blocks[:settled], np.array(tail, dtype=np.int64)])
        stretches += self._taken_back(tail, settled)
        self.members.update(tail)
        return chain, places

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

    def _without_repeats(self, tail: list[int], settled: int) -> tuple[list[int], list[int]]:
        """(the tail's first occurrences, the place of every different block of the request)"""
        kept, places, seen = [], list(range(settled)), set(self.members)
        for place, block in enumerate(tail, start=settled):
            if block not in seen:
                seen.add(block)
                kept.append(block)
                places.append(place)
        return kept, places
