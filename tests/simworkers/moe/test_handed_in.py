"""A placement that is handed in: every fault has its place and its sentence."""

import pytest
from pydantic import ValidationError

from simworkers.moe.handed_in import MAX_FAULTS, PlacementArtefact
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate

# Two GPUs, one a node; groups 0 1 | 2 3 | 4 5 | 6 7; five slots a GPU.
SHAPE = {"num_gpus": 2, "num_nodes": 2, "num_groups": 4, "num_layers": 2, "redundant_slots_per_gpu": 1}
RIGHT = [0, 1, 2, 3, 0, 4, 5, 6, 7, 6]
PARAMS = MoeParams(**SHAPE).model_dump()


def faults(*layers, **changes):
    """(place, sentence) of every fault of an artefact."""
    with pytest.raises(ValidationError) as caught:
        PlacementArtefact.model_validate({"placement": list(layers)}, context={"params": PARAMS | changes})
    return [(error["loc"][1:], error["msg"]) for error in caught.value.errors()]


def test_a_placement_that_fits_is_taken():
    artefact = PlacementArtefact.model_validate({"placement": [RIGHT, RIGHT]}, context={"params": PARAMS})
    assert artefact.placement == [RIGHT, RIGHT]


def test_a_missing_expert_is_named_with_its_layer():
    without_3 = [0, 1, 2, 2, 0, 4, 5, 6, 7, 6]
    assert faults(RIGHT, without_3) == [((1,), "layer 1 has no slot for expert 3")]


@pytest.mark.parametrize("slots", [9, 11, 0])
def test_a_wrong_number_of_slots_is_counted(slots):
    expected = f"layer 0 has {slots} slots; it needs 10, 5 on each GPU"
    assert faults((RIGHT + RIGHT)[:slots], RIGHT) == [((0,), expected)]


def test_a_wrong_number_of_layers_is_counted():
    assert faults(RIGHT) == [((), "has 1 layers; it needs num_layers = 2")]


@pytest.mark.parametrize("unknown", [8, -1, 10**30])
def test_an_unknown_expert_is_found_in_its_slot(unknown):
    expected = f"there is no expert {unknown}; there are 0 … 7"
    assert faults(RIGHT, [*RIGHT[:4], unknown, *RIGHT[5:]]) == [((1, 4), expected)]


def test_a_copy_outside_its_groups_node_is_found_in_its_slot():
    astray = [0, 1, 2, 3, 7, 4, 5, 6, 7, 6]
    assert [place for place, _ in faults(astray, RIGHT)] == [(0, 7), (0, 8), (0, 9)]
    assert (
        "expert 6 lies on node 1, but group 3 (experts 6 … 7) also lies on node 0"
        in faults(astray, RIGHT)[0][1]
    )


def test_global_balancing_knows_no_node_rule():
    astray = [0, 1, 2, 3, 7, 4, 5, 6, 7, 6]
    PlacementArtefact.model_validate(
        {"placement": [astray, RIGHT]}, context={"params": PARAMS | {"eplb_policy": "global"}}
    )


def test_a_placement_for_another_cluster_is_refused_in_few_words():
    assert len(faults([99] * 10, [99] * 10)) == MAX_FAULTS


@pytest.mark.parametrize("value", [None, "0", [["x"]], [[1.5]], [0], {"0": []}])
def test_what_is_no_list_of_lists_of_integers_is_refused(value):
    with pytest.raises(ValidationError):
        PlacementArtefact.model_validate({"placement": value}, context={"params": PARAMS})


def test_as_a_parameter_it_is_refused_at_the_same_place():
    with pytest.raises(ValidationError) as caught:
        MoeParams(**SHAPE, placement=[RIGHT, [*RIGHT[:4], 8, *RIGHT[5:]]])
    assert [error["loc"] for error in caught.value.errors()] == [("placement", 1, 4)]


def test_a_run_puts_it_in_place_once_and_keeps_it():
    short = {"tokens_per_step": 256, "warmup_steps": 2, "num_steps": 4, "interval_steps": 1}
    params = MoeParams(**SHAPE, **short, eplb=True, placement=[RIGHT, RIGHT])
    report = simulate(params, 0, lambda done, total: None)
    assert report.metrics["placement"] == [RIGHT, RIGHT]
    assert report.metrics["rebalance_steps"] == [0]
    assert {found.state for found in report.invariants.values()} == {"held"}


def test_it_is_ignored_while_eplb_is_off():
    short = {"tokens_per_step": 256, "warmup_steps": 1, "num_steps": 1}
    report = simulate(MoeParams(**SHAPE, **short, placement=[RIGHT, RIGHT]), 0, lambda done, total: None)
    assert report.metrics["placement"] == [list(range(8))] * 2
    assert report.metrics["extra_hbm_bytes"] == 0


def test_contiguous_experts_with_copies_beside_them_change_nothing():
    """Doing nothing, written down as a placement, is exactly the baseline."""
    beside = [0, 1, 2, 3, 3, 4, 5, 6, 7, 4]
    short = {"tokens_per_step": 512, "warmup_steps": 1, "num_steps": 3}
    params = MoeParams(**SHAPE, **short, eplb=True, placement=[beside, beside])
    metrics = simulate(params, 0, lambda done, total: None).metrics
    assert metrics["max_over_mean_mean"] == metrics["max_over_mean_before_mean"]
