"""Sizing an encoder cache: exact over any order of pictures, against every capacity tried one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.multimodal.cache_sizing import (
    Access,
    HbmPrice,
    cheapest,
    cost_us,
    encode_us,
    useful_capacities,
)

LARGEST = 9
SIZES = {name: size for size, name in enumerate("abcdefgh", start=2)}  # embeddings
ORDERS = st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=30)


def accesses_of(order):
    return [Access((name, SIZES[name]), 100 * SIZES[name]) for name in order]


def price_of(permille):
    """One embedding costs this many thousandths of a microsecond."""
    return HbmPrice(embedding_bytes=1, hbm_bytes=1000, window_us=permille)


def encoded_naively(order, capacity):
    """Pictures that are encoded: a list, the one used last at its end, cut from the front until it fits."""
    kept: list[Any] = []
    encoded = 0
    for name in order:
        encoded += name not in kept
        was_there = name in kept
        kept = [other for other in kept if other != name]
        while not was_there and sum(SIZES[other] for other in kept) + SIZES[name] > capacity:
            kept.pop(0)
        kept.append(name)
    return encoded


@given(ORDERS, st.integers(LARGEST, 60))
def test_what_is_encoded_is_what_a_naive_cache_encodes(order, capacity):
    accesses = [Access((name, SIZES[name]), 1) for name in order]
    assert encode_us(accesses, capacity) == encoded_naively(order, capacity)


@given(ORDERS, st.integers(0, 60_000))
def test_no_capacity_at_all_is_cheaper_than_the_one_that_is_found(order, permille):
    accesses, price = accesses_of(order), price_of(permille)
    best = cost_us(accesses, cheapest(accesses, LARGEST, price), price)
    assert best == min(cost_us(accesses, capacity, price) for capacity in range(LARGEST, 60))


@given(ORDERS)
def test_a_larger_cache_never_encodes_more(order):
    spent = [encode_us(accesses_of(order), capacity) for capacity in range(LARGEST, 60)]
    assert spent == sorted(spent, reverse=True)


def test_one_embedding_less_than_a_cycle_finds_nothing():
    accesses = accesses_of("abc" * 4)
    whole = sum(SIZES[name] for name in "abc")
    assert useful_capacities(accesses, LARGEST) == [LARGEST] == [whole]
    assert encode_us(accesses, whole) == 100 * whole
    assert encode_us(accesses, whole - 1) == 4 * encode_us(accesses, whole)


def test_free_memory_keeps_all_that_comes_back_and_dear_memory_nothing():
    accesses = accesses_of("ghgh")
    assert cheapest(accesses, LARGEST, price_of(0)) == SIZES["g"] + SIZES["h"]
    assert cheapest(accesses, LARGEST, price_of(10**9)) == LARGEST


def test_memory_costs_its_share_of_the_gpu_for_the_whole_window():
    price = HbmPrice(embedding_bytes=1000, hbm_bytes=80_000, window_us=600)
    assert price.cost_us(8) == 60.0


def test_a_picture_that_does_not_fit_the_least_capacity_is_refused():
    with pytest.raises(ValueError, match="least: a picture has 9 embeddings, more than 8"):
        useful_capacities(accesses_of("h"), 8)
