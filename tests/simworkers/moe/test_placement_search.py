"""Patience beats greed, under the same rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.moe.balancer import choose_balancer
from simworkers.moe.checks import first_split_group
from simworkers.moe.node_packing import best_packings, node_bound, step_node_bound
from simworkers.moe.placement import ClusterShape, max_over_mean
from simworkers.moe.placement_search import search_placement
from simworkers.moe.rehearsal import split_over_gpus

SHAPE = ClusterShape(12, 4, 2, 4)  # 8 experts, 4 groups, 2 nodes of 2 GPUs of 3 slots
loads = st.lists(st.lists(st.integers(0, 10_000), min_size=8, max_size=8), min_size=1, max_size=2).map(
    np.array
)


@settings(deadline=None, max_examples=25)
@given(loads)
def test_it_places_every_expert_under_the_node_rule_and_no_worse_than_the_balancer(load):
    found = search_placement(load, SHAPE)
    assert found.experts.shape == (len(load), 12)
    assert found.first_unplaced() is None
    assert first_split_group(found, 4, 2) is None
    reference = choose_balancer("auto", SHAPE).place(load, SHAPE)
    assert (found.max_over_mean(load) <= reference.max_over_mean(load) + 1e-6).all()
    assert (found.max_over_mean(load) >= node_bound(load, 4, 2) - 1e-9).all()


def test_it_finds_what_the_greedy_balancer_misses():
    """2 + 2 + 2 + 1 over two GPUs of three slots: copying one 2 and the 1 is level, copying two of the 2s is not."""
    load, shape = np.array([[2, 2, 2, 1]]), ClusterShape(6, 2)
    assert search_placement(load, shape).max_over_mean(load) == pytest.approx(1.0)
    assert choose_balancer("auto", shape).place(load, shape).max_over_mean(load) > 1.1


def test_equal_loads_give_equal_answers():
    load = np.arange(16).reshape(2, 8) ** 2
    assert search_placement(load, SHAPE).experts.tolist() == search_placement(load, SHAPE).experts.tolist()


def test_the_best_packings_come_levellest_first():
    load = np.array([9.0, 5.0, 4.0, 1.0])
    heaviest = [max(load[ways == node].sum() for node in (0, 1)) for ways in best_packings(load, 2, 3)]
    assert heaviest == sorted(heaviest) == [10.0, 13.0, 14.0]


@settings(deadline=None, max_examples=25)
@given(st.lists(loads.filter(lambda load: len(load) == 1), min_size=1, max_size=4), st.integers(0, 100))
def test_no_placement_that_stays_beats_the_bound_of_its_steps(steps, seed):
    counts = np.array(steps)  # [N, 1, 8]
    bound = step_node_bound(counts, 4, 2)
    rng = np.random.default_rng(seed)
    for load in (counts.sum(axis=0), rng.integers(0, 100, (1, 8))):
        placement = search_placement(load, SHAPE)
        reached = np.mean([max_over_mean(split_over_gpus(placement, step)) for step in counts])
        assert reached >= bound[0] - 1e-9 or not counts.sum(axis=2).all()


def test_the_bound_of_equal_steps_is_the_node_bound():
    load = np.array([[9, 5, 4, 1, 2, 2, 8, 8]])
    assert step_node_bound(np.array([load, load]), 4, 2) == pytest.approx(node_bound(load, 4, 2))
