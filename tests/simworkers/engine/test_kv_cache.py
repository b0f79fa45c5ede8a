"""The block pool against a naive one that searches lists, and its rules one by one."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simworkers.engine.kv_cache import BlockPool, CacheInUse, KvTensors, OutOfBlocks

BLOCKS = 6
NAMES = [bytes([n]) for n in range(4)]


class PoolMachine(RuleBasedStateMachine):
    """Sequences come and go; the model keeps plain lists."""

    def __init__(self):
        super().__init__()
        self.pool = BlockPool(BLOCKS)
        self.names: dict[int, bytes] = {}  # block → name
        self.free = list(range(BLOCKS))  # next to be handed out first
        self.sequences: list[list[int]] = []

    def holders(self, block):
        return sum(sequence.count(block) for sequence in self.sequences)

    @rule(count=st.integers(0, 3), names=st.lists(st.sampled_from(NAMES), max_size=3))
    def allocate(self, count, names):
        if count > len(self.free):
            with pytest.raises(OutOfBlocks):
                self.pool.allocate(count)
            return
        expected, self.free = self.free[:count], self.free[count:]
        assert self.pool.allocate(count) == expected
        for block in expected:
            self.names.pop(block, None)
        for block, name in zip(expected, names, strict=False):
            self.pool.register(block, name)
            self.names[block] = name
        self.sequences.append(expected)

    @rule(names=st.lists(st.sampled_from(NAMES), max_size=3))
    def match_and_hold(self, names):
        known = 0
        while known < len(names) and names[known] in self.names.values():
            known += 1
        matched = self.pool.match(names)
        assert [self.names[block] for block in matched] == names[:known]
        # One name twice in a sequence cannot happen: names are chained.
        if len(set(matched)) == len(matched):
            self.pool.hold(matched)
            self.free = [block for block in self.free if block not in matched]
            self.sequences.append(matched)

    @rule(data=st.data())
    def release(self, data):
        if self.sequences:
            sequence = self.sequences.pop(data.draw(st.integers(0, len(self.sequences) - 1)))
            self.pool.release(sequence)
            self.free += [block for block in reversed(sequence) if not self.holders(block)]

    @rule()
    def reset(self):
        if any(self.sequences):
            with pytest.raises(CacheInUse):
                self.pool.reset()
        else:
            self.pool.reset()
            self.names, self.free = {}, list(range(BLOCKS))

    @invariant()
    def agrees(self):
        self.pool.check_integrity()
        assert self.pool.num_free == len(self.free)
        assert list(self.pool.holders) == [self.holders(block) for block in range(BLOCKS)]
        assert self.pool.num_cached == len(self.names)


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def pool_with(*names: bytes) -> tuple[BlockPool, list[int]]:
    """Blocks with these names, held."""
    pool = BlockPool(BLOCKS)
    blocks = pool.allocate(len(names))
    for block, name in zip(blocks, names, strict=True):
        pool.register(block, name)
    return pool, blocks


def test_the_tail_of_a_finished_sequence_is_evicted_before_its_head():
    pool, blocks = pool_with(b"head", b"middle", b"tail")
    pool.release(blocks)
    pool.allocate(BLOCKS - 2)  # all unused ones, and one of the three
    assert pool.match([b"head", b"middle", b"tail"]) == blocks[:2]


def test_a_duplicate_stays_reachable_when_its_twin_is_evicted():
    pool, blocks = pool_with(b"same", b"same")
    pool.release(blocks[:1])
    pool.allocate(BLOCKS - 1)
    assert pool.match([b"same"]) == [blocks[1]]


def test_a_match_stops_at_the_first_gap():
    pool, blocks = pool_with(b"a", b"c")
    assert pool.match([b"a", b"b", b"c"]) == blocks[:1]


def test_a_refused_allocation_takes_nothing():
    pool = BlockPool(BLOCKS)
    with pytest.raises(OutOfBlocks):
        pool.allocate(BLOCKS + 1)
    assert pool.num_free == BLOCKS


def test_a_held_block_of_a_shared_prefix_outlives_its_first_holder():
    pool, blocks = pool_with(b"a")
    pool.hold(blocks)
    pool.release(blocks)
    assert pool.num_free == BLOCKS - 1
    pool.allocate(BLOCKS - 1)
    assert pool.match([b"a"]) == blocks


def test_slots_follow_the_block_table():
    tensors = KvTensors(layers=1, blocks=4, block_size=2, kv_heads=1, head_dim=3, dtype=torch.float32)
    assert tensors.slots([3, 1], 3).tolist() == [6, 7, 2]


def test_keys_and_values_have_the_documented_shapes():
    tensors = KvTensors(layers=2, blocks=3, block_size=4, kv_heads=5, head_dim=6, dtype=torch.float64)
    assert tensors.keys.shape == tensors.values.shape == (2, 12, 5, 6)
    assert tensors.num_bytes == 2 * 2 * 12 * 5 * 6 * 8
