"""Embeddings of images: held while used, dropped in order of last use."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from simworkers.engine.encoder_cache import EncoderCache
from simworkers.engine.kv_cache import CacheInUse

CAPACITY = 6
LENGTHS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 6}
A = ("a", 1)


class CacheMachine(RuleBasedStateMachine):
    """The model: a list of names in order of last use, and a list of holders."""

    def __init__(self):
        super().__init__()
        self.cache = EncoderCache(CAPACITY)
        self.stored: list[str] = []
        self.held: list[str] = []

    @rule(name=st.sampled_from(sorted(LENGTHS)))
    def hold(self, name):
        length = LENGTHS[name]
        if name in self.stored:
            assert self.cache.hold((name, length))
        else:
            pinned = sum(LENGTHS[other] for other in set(self.held))
            assert self.cache.has_room(length) == (pinned + length <= CAPACITY)
            if pinned + length > CAPACITY:
                with pytest.raises(ValueError, match="needs room"):
                    self.cache.hold((name, length))
                return
            assert not self.cache.hold((name, length))
            self.cache.store((name, length), torch.zeros(length, 2))
            while sum(LENGTHS[other] for other in self.stored) + length > CAPACITY:
                self.stored.remove(next(other for other in self.stored if other not in self.held))
            self.stored.append(name)
        self.held.append(name)

    @rule(data=st.data())
    def release(self, data):
        if self.held:
            name = data.draw(st.sampled_from(self.held))
            self.cache.release((name, LENGTHS[name]))
            self.held.remove(name)
            if name not in self.held:
                self.stored.remove(name)
                self.stored.append(name)

    @invariant()
    def agrees(self):
        self.cache.check_integrity()
        assert set(self.cache.keys()) == {(name, LENGTHS[name]) for name in self.stored}
        assert self.cache.used == sum(LENGTHS[name] for name in self.stored)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_reset_is_refused_while_an_entry_is_held():
    cache = EncoderCache(CAPACITY)
    cache.hold(A)
    with pytest.raises(CacheInUse):
        cache.reset()
    assert A in cache


def test_what_was_reserved_and_never_encoded_is_not_found_later():
    cache = EncoderCache(CAPACITY)
    cache.hold(A)
    cache.release(A)
    assert A not in cache


def test_without_keeping_an_entry_goes_with_its_last_holder():
    cache = EncoderCache(CAPACITY, keep=False)
    cache.hold(A)
    cache.hold(A)
    cache.store(A, torch.zeros(1, 2))
    cache.release(A)
    assert A in cache
    cache.release(A)
    assert A not in cache


def test_one_identifier_with_two_lengths_stands_for_two_entries():
    cache = EncoderCache(CAPACITY)
    assert not cache.hold(A)
    assert not cache.hold(("a", 2))
