"""The KV blocks of one replica, handled as runs: which are held, which can be found again, which go first.

Exactly what an LRU over single blocks does, at a price that counts runs. All blocks of a run are touched together and
leave tail first, so that a run in the cache is always its leading blocks: one number.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

Evicted = Callable[[int, int], None]  # (run, blocks): its last cached blocks were pushed out


class RunLru:
    """Runs by recency, the oldest first. Values: how many leading blocks of each are here."""

    def __init__(self, capacity_blocks: int, on_evict: Evicted | None = None) -> None:
        self.capacity_blocks = capacity_blocks
        self.blocks: OrderedDict[int, int] = OrderedDict()
        self.total_blocks = 0
        self._on_evict = on_evict

    def put(self, run: int, blocks: int) -> None:
        """Make it the most recent one, with so many blocks more."""
        self.blocks[run] = self.blocks.pop(run, 0) + blocks
        self.total_blocks += blocks

    def take(self, run: int) -> int:
        """Remove it; how many blocks of it were here."""
        found = self.blocks.pop(run, 0)
        self.total_blocks -= found
        return found

    def evict(self, blocks: int) -> None:
        """Push out the oldest blocks."""
        self.total_blocks -= blocks
        while blocks:
            run, here = next(iter(self.blocks.items()))
            gone = min(here, blocks)
            if gone == here:
                del self.blocks[run]
            else:
                self.blocks[run] = here - gone
            blocks -= gone
            if self._on_evict is not None and run >= 0:
                self._on_evict(run, gone)

    def reset(self) -> None:
        self.blocks.clear()
        self.total_blocks = 0

    def check_integrity(self, run_lengths: Sequence[int]) -> None:
        """AssertionError unless counts agree and no run has more blocks than it is long."""
        assert self.total_blocks == sum(self.blocks.values())
        assert self.total_blocks <= self.capacity_blocks, (
            f"{self.total_blocks} blocks in {self.capacity_blocks}"
        )
        for run, blocks in self.blocks.items():
            assert blocks > 0 and (run < 0 or blocks <= run_lengths[run]), f"run {run} has {blocks} blocks"


class Found(NamedTuple):
    """Leading blocks of a prompt, by where they were found."""

    hbm: int
    host: int = 0
    pool: int = 0

    @property
    def blocks(self) -> int:
        return self.hbm + self.host + self.pool


class RunCache:
    """KV blocks of a replica: those that requests hold, those without a name (partly filled, or an answer's while it
    grows), and those that nobody holds and that can be found again.

    A run is *pending* from the admission of a request that computes it to the end of that request's prefill: its room
    is taken, and others hit only what was there before. Two requests that compute it side by side share its room.
    """

    def __init__(
        self, capacity_blocks: int, run_lengths: Sequence[int], on_evict: Evicted | None = None
    ) -> None:
        self.capacity_blocks = capacity_blocks
        self.run_lengths = run_lengths
        self.free = RunLru(
            capacity_blocks, on_evict
        )  # nobody holds them; negative names: blocks without a name
        self.holders: dict[int, int] = {}
        self.pending: dict[int, int] = {}  # run → its leading blocks that were there and can be hit
        self.held_blocks = 0  # of runs
        self.nameless_blocks = 0  # held, without a name
        self._nameless = 0
        self._last_found: tuple[Sequence[int], int] | None = None  # until anything changes

    @property
    def used_blocks(self) -> int:
        """Held by requests."""
        return self.held_blocks + self.nameless_blocks

    @property
    def room_blocks(self) -> int:
        """That nobody holds."""
        return self.capacity_blocks - self.held_blocks - self.nameless_blocks

    def find(self, runs: Sequence[int]) -> int:
        """Leading blocks that are here. Touches nothing. A router, a queue and a seat ask for the same prompt."""
        if self._last_found is not None and self._last_found[0] is runs:
            return self._last_found[1]
        found, free, lengths = 0, self.free.blocks, self.run_lengths
        holders, pending = self.holders, self.pending
        for run in runs:
            here = free.get(run)
            if here is None:
                if run not in holders:
                    break
                here = pending.get(run, lengths[run])
            found += here
            if here < lengths[run]:
                break
        self._last_found = runs, found
        return found

    def is_held(self, run: int) -> bool:
        return run in self.holders

    def missing_blocks(self, runs: Sequence[int]) -> int:
        """Of room that holding these runs would take."""
        holders, lengths = self.holders, self.run_lengths
        return sum(lengths[run] for run in runs if run not in holders)

    def hold(self, runs: Sequence[int], found: int, nameless_blocks: int) -> None:
        """One holder more for each run, and blocks without a name beside them; what was not found is pending."""
        holders, lengths, take = self.holders, self.run_lengths, self.free.blocks.pop
        self._last_found, held, taken = None, 0, 0
        for run in runs:
            length = lengths[run]
            found -= length
            if run in holders:
                holders[run] += 1
                continue
            holders[run] = 1
            held += length
            taken += take(run, 0)
            if found < 0:
                self.pending[run] = max(found + length, 0)
        self.held_blocks += held
        self.free.total_blocks -= taken
        self.grow(nameless_blocks)

    def grow(self, nameless_blocks: int) -> None:
        """More blocks without a name; what nobody holds makes room."""
        self.nameless_blocks += nameless_blocks
        excess = self.free.total_blocks - self.room_blocks
        if excess > 0:
            assert self.room_blocks >= 0, "more blocks are held than there are"
            self._last_found = None
            self.free.evict(excess)

    def computed(self, runs: Sequence[int]) -> None:
        """The prefill that computes these runs is over: from now on they can be hit."""
        self._last_found = None
        for run in self.pending.keys() & set(runs):
            del self.pending[run]

    def release(self, runs: Sequence[int], computed_blocks: int, nameless_blocks: int) -> None:
        """One holder less. What nobody holds can be found again, as far as it is computed; the head stays longest, and
        blocks without a name go first."""
        holders, lengths, pending, blocks = self.holders, self.run_lengths, self.pending, self.free.blocks
        self._last_found = None
        self.nameless_blocks -= nameless_blocks
        if nameless_blocks:
            self._nameless -= 1
            self.free.put(self._nameless, nameless_blocks)
        if not pending.keys().isdisjoint(runs):
            self._cut_short(runs, computed_blocks)
        let_go = put = 0
        for run in reversed(runs):
            if holders[run] > 1:
                holders[run] -= 1
                continue
            del holders[run]
            length = lengths[run]
            let_go += length
            if run in pending:
                length = pending.pop(run)
            if length:
                blocks[run] = length  # a held run was not there: it is the most recent now
                put += length
        self.held_blocks -= let_go
        self.free.total_blocks += put

    def _cut_short(self, runs: Sequence[int], computed_blocks: int) -> None:
        """The only request that computes these runs stops at so many blocks: that far they are there."""
        place = 0
        for run in runs:
            length = self.run_lengths[run]
            if run in self.pending and self.holders[run] == 1:
                self.pending[run] = min(length, max(computed_blocks - place, self.pending[run]))
            place += length

    def name(self, runs: Sequence[int], nameless_blocks: int) -> int | None:
        """An answer's blocks get their names while they are held: they become runs with one more holder. How many of
        the blocks without a name that are; None, and nothing done, where it would take more room than there is."""
        self._last_found, lengths = None, self.run_lengths
        named = min(sum([lengths[run] for run in runs]), nameless_blocks)
        if self.missing_blocks(runs) - named > self.room_blocks:
            return None
        for run in runs:
            self.holders[run] = self.holders.get(run, 0) + 1
            if self.holders[run] == 1:
                self.held_blocks += lengths[run]
                self.free.take(run)
        self.grow(-named)
        return named

    def keep_head(self, runs: Sequence[int]) -> None:
        """A prompt larger than the cache has passed through it: what nobody holds is now its head."""
        self._last_found = None
        for run in runs:
            self.free.take(run)
        room, kept = self.room_blocks, list[tuple[int, int]]()
        for run in runs:
            length = min(self.run_lengths[run], room) if run not in self.holders else 0
            room -= length
            if length:
                kept.append((run, length))
        for run, length in reversed(kept):
            self.free.put(run, length)
        self.grow(0)

    def reset(self) -> None:
        """Everything is lost, held or not."""
        self._last_found = None
        self.free.reset()
        self.holders.clear()
        self.pending.clear()
        self.held_blocks = self.nameless_blocks = 0

    def check_integrity(self) -> None:
        """AssertionError unless holders, room and recency agree."""
        self.free.check_integrity(self.run_lengths)
        assert self.held_blocks == sum(self.run_lengths[run] for run in self.holders)
        assert all(count > 0 for count in self.holders.values())
        assert self.pending.keys() <= self.holders.keys()
        assert not self.holders.keys() & self.free.blocks.keys()
        assert self.free.total_blocks <= self.room_blocks, "held and free blocks exceed the capacity"
