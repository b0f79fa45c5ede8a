import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.moe.node_packing import node_bound, pack_groups
from simworkers.moe.placement import ClusterShape, Placement, max_over_mean, place_contiguously


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 4), "num_slots: 10 slots do not fill 4 GPUs evenly"),
        ((12, 4, 3), "num_gpus: 4 GPUs do not fill 3 nodes evenly"),
        ((0, 4), "num_slots: must be at least 1"),
    ],
)
def test_shapes_that_do_not_divide_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ClusterShape(*arguments)


def test_documented_shapes_hold():
    placement = Placement(np.array([[0, 1, 1, 2]]), num_experts=3, num_gpus=2)
    load = np.array([[4, 6, 8]])
    assert placement.copies().tolist() == [[1, 2, 1]]
    assert placement.gpu_load(load).tolist() == [[7, 11]]


def test_a_layer_without_load_counts_as_balanced():
    assert max_over_mean(np.zeros((2, 4))).tolist() == [1.0, 1.0]


def test_the_first_expert_without_a_slot_is_named():
    assert Placement(np.array([[0, 1], [1, 1]]), 2, 2).first_unplaced() == (1, 0)
    assert place_contiguously(2, 4, 2).first_unplaced() is None


@given(st.lists(st.integers(0, 1000), min_size=6, max_size=6), st.sampled_from([2, 3]))
def test_packing_groups_finds_the_least_maximum_over_every_split(loads, nodes):
    per_node = 6 // nodes
    best = min(
        max(sum(loads[g] for g in order[n * per_node : (n + 1) * per_node]) for n in range(nodes))
        for order in itertools.permutations(range(6))
    )
    node_of_group = pack_groups(np.array([loads], dtype=float), nodes)[0]
    assert np.bincount(node_of_group, minlength=nodes).tolist() == [per_node] * nodes
    assert max(np.bincount(node_of_group, weights=loads, minlength=nodes)) == best


def test_too_many_splits_to_try_still_give_every_node_its_groups():
    load = np.random.default_rng(0).random((2, 64))
    for node_of_group in pack_groups(load, 4):
        assert np.bincount(node_of_group).tolist() == [16, 16, 16, 16]


def test_the_node_bound_of_one_heavy_group_is_its_share_over_a_node():
    load = np.array([[9, 1, 1, 1]])
    assert node_bound(load, num_groups=4, num_nodes=2)[0] == pytest.approx(10 / 6)
