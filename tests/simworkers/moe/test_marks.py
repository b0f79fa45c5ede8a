"""The marks of a run: what the balancer itself would reach, and what less than the budget would."""

import numpy as np
import pytest

from simworkers.moe.marks import slots_within_budget
from simworkers.moe.metrics import MoeMetrics
from simworkers.moe.params import MoeParams
from simworkers.moe.rehearsal import count_experts, rehearse
from simworkers.moe.simulate import simulate
from tests.simworkers.tasks import silent

SMALL = {"tokens_per_step": 512, "chunk_tokens": 16, "num_layers": 2, "warmup_steps": 2, "num_steps": 8}
SLOT_GB = 4 * 58 * 44_040_192 / 1e9  # one more slot on each of four GPUs


def run(**values):
    return simulate(MoeParams(**SMALL | values), 0, silent).metrics


def test_a_balanced_run_is_its_own_reference():
    metrics = run(eplb=True, redundant_slots_per_gpu=1, interval_steps=2)
    assert metrics["max_over_mean_reference_mean"] == metrics["max_over_mean_mean"]


def test_with_eplb_off_the_reference_says_what_it_would_have_reached():
    off, on = run(redundant_slots_per_gpu=1), run(redundant_slots_per_gpu=1, eplb=True)
    assert off["max_over_mean_reference_mean"] == on["max_over_mean_mean"] < off["max_over_mean_mean"]


@pytest.mark.parametrize(("slots", "copies"), [(0.9, 0), (1.0, 1), (2.5, 2), (100, 8)])
def test_the_budget_is_counted_in_slots_on_every_gpu(slots, copies):
    assert slots_within_budget(MoeParams(hbm_budget_gb=slots * SLOT_GB)) == copies


def test_the_saver_has_one_slot_fewer_than_the_budget_and_does_not_hang_on_the_settings():
    budget = {"hbm_budget_gb": 2.5 * SLOT_GB}
    well_set = {"eplb": True, "redundant_slots_per_gpu": 1, "window_steps": 64, "interval_steps": 4}
    saver = run(**budget, **well_set)
    assert saver["max_over_mean_saving_mean"] == saver["max_over_mean_mean"]
    assert run(**budget, window_steps=1)["max_over_mean_saving_mean"] == saver["max_over_mean_saving_mean"]


def test_without_room_for_any_copy_the_saver_moves_experts_alone():
    params = MoeParams(**SMALL, hbm_budget_gb=0)
    moving = params.model_copy(update={"eplb": True, "window_steps": 64, "interval_steps": 4})
    reached = rehearse(moving, count_experts(params, 0, silent)).reached()
    assert run(hbm_budget_gb=0)["max_over_mean_saving_mean"] == reached


def test_bounds_are_one_on_a_single_node_and_ordered_on_several():
    assert (run()["node_bound"], run()["step_node_bound"]) == (1.0, 1.0)
    metrics = run(num_nodes=2, num_gpus=4, num_groups=4, eplb=True, redundant_slots_per_gpu=2)
    assert 1.0 <= metrics["node_bound"] <= metrics["step_node_bound"] <= metrics["max_over_mean_mean"]


def test_marks_are_scalars_that_a_rubric_may_name():
    fields = MoeMetrics.model_json_schema()["properties"]
    names = (
        "max_over_mean_reference_mean",
        "max_over_mean_saving_mean",
        "step_node_bound",
        "break_even_tokens",
    )
    assert {fields[name]["type"] for name in names} == {"number", "integer"}
    assert np.isfinite([run()[name] for name in names]).all()
