"""What RunCache does, written from the definition: one block at a time in one OrderedDict, every block counted."""

from collections import Counter, OrderedDict
from itertools import islice

from simworkers.agents.serving.run_cache import RunCache

Block = tuple[int, int]  # (run, place in it); nameless ones have a negative run


class NaiveCache(RunCache):
    def __init__(self, capacity_blocks, run_lengths, on_evict=None):
        super().__init__(capacity_blocks, run_lengths, on_evict)
        self.order: OrderedDict[Block, None] = OrderedDict()  # nobody holds these; the oldest first
        self.held: Counter[Block] = Counter()
        self.not_computed: set[Block] = set()
        self.on_evict = on_evict

    def blocks_of(self, runs):
        return ((run, place) for run in runs for place in range(self.run_lengths[run]))

    def find(self, runs):
        found = 0
        for block in self.blocks_of(runs):
            is_here = block in self.order or (block in self.held and block not in self.not_computed)
            if not is_here:
                break
            found += 1
        return found

    def is_held(self, run):
        return (run, 0) in self.held

    def missing_blocks(self, runs):
        return sum(block not in self.held for block in self.blocks_of(runs))

    def hold(self, runs, found, nameless_blocks):
        for block in self.blocks_of(runs):
            self.held[block] += 1
            if self.held[block] == 1:
                self.order.pop(block, None)
        new = islice(self.blocks_of(runs), found, None)
        self.not_computed.update(block for block in new if self.held[block] == 1)
        self.grow(nameless_blocks)

    def grow(self, nameless_blocks):
        self.nameless_blocks += nameless_blocks
        self.held_blocks = len(self.held)
        self._push_out()

    def _push_out(self):
        while len(self.order) > self.capacity_blocks - self.held_blocks - self.nameless_blocks:
            (run, _), _ = self.order.popitem(last=False)
            if self.on_evict is not None and run >= 0:
                self.on_evict(run, 1)
        self.free.total_blocks = len(self.order)

    def computed(self, runs):
        self.not_computed.difference_update(self.blocks_of(runs))

    def release(self, runs, computed_blocks, nameless_blocks):
        self.nameless_blocks -= nameless_blocks
        for _ in range(nameless_blocks):
            self._nameless -= 1
            self.order[self._nameless, 0] = None
        for place, block in reversed(list(enumerate(self.blocks_of(runs)))):
            self.held[block] -= 1
            if self.held[block]:
                continue
            del self.held[block]
            if block not in self.not_computed or place < computed_blocks:
                self.order[block] = None
            self.not_computed.discard(block)
        self.held_blocks = len(self.held)
        self._push_out()

    def name(self, runs, nameless_blocks):
        blocks = list(self.blocks_of(runs))
        named = min(len(blocks), nameless_blocks)
        if sum(block not in self.held for block in blocks) - named > self.room_blocks:
            return None
        for block in blocks:
            self.held[block] += 1
            self.order.pop(block, None)
        self.grow(-named)
        return named

    def keep_head(self, runs):
        own = [block for block in self.blocks_of(runs) if block not in self.held]
        for block in own:
            self.order.pop(block, None)
        for block in reversed(own[: self.room_blocks]):
            self.order[block] = None
        self._push_out()

    def reset(self):
        super().reset()
        self.order.clear()
        self.held.clear()
        self.not_computed.clear()

    def check_integrity(self):
        assert len(self.order) + len(self.held) + self.nameless_blocks <= self.capacity_blocks
        assert not self.held.keys() & self.order.keys()
