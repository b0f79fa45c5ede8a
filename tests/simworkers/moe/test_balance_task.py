"""The task `balance-hbm` tells people apart: over 20 seeds the references separate by a stated gap."""

import numpy as np
import pytest

from simworkers.moe import balance_task
from simworkers.moe.balance_task import prepare
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate
from tests.simworkers.moe.tasks import KINDS, SEEDS, instance, measured, references, result, silent

KIND = "balance-hbm"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, saver, expert = (result(KIND, seed, who) for who in references(KIND, seed))
    assert naive == 0
    assert 0.1 <= misconception <= 0.5
    assert saver <= 0.75
    assert expert >= 0.85
    assert expert - misconception >= 0.35


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_contiguous_and_the_sampling_floor_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "naive")
    assert metrics["max_over_mean_before_mean"] >= 1.2 * metrics["sampling_floor"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_visible_load_lets_an_expert_predict_straggler_and_imbalance(seed):
    metrics, prediction = measured(KIND, seed, "expert"), references(KIND, seed)["expert"].prediction
    assert prediction["straggler_gpu"] == metrics["straggler_gpu_before"]
    assert prediction["max_over_mean"] == pytest.approx(metrics["max_over_mean_before_mean"], rel=0.05)


@pytest.mark.slow
def test_stragglers_differ_between_instances_so_that_guessing_fails():
    guessed = [measured(KIND, seed, "naive")["straggler_gpu_before"] for seed in SEEDS]
    assert max(np.bincount(guessed)) <= len(SEEDS) // 2


@pytest.mark.slow
def test_the_lesson_alone_earns_nothing_since_as_many_copies_as_possible_break_every_budget():
    for seed in SEEDS:
        visible = instance(KIND, seed).visible
        slot_bytes = visible["expert_bytes"] * visible["accounted_layers"] * visible["num_gpus"]
        assert 8 * slot_bytes > visible["hbm_budget_gb"] * 1e9


def test_the_short_way_measures_what_a_run_does():
    prepared, expert = instance(KIND, 0), references(KIND, 0)["expert"]
    params = MoeParams.model_validate(prepared.params | expert.params)
    metrics = simulate(params, prepared.seed, silent).metrics
    found = measured(KIND, 0, "expert")
    assert {name: metrics[name] for name in found} == found


def test_an_instance_is_drawn_from_its_seed_alone():
    assert prepare(0, silent) == instance(KIND, 0)
    assert instance(KIND, 0).params != instance(KIND, 1).params


def test_the_observed_load_is_not_the_graded_one():
    prepared = instance(KIND, 0)
    observed = np.array(prepared.visible["observed_load"])
    assert observed.shape == (prepared.params["num_layers"], prepared.params["num_experts"])
    short = MoeParams.model_validate(prepared.params | {"num_steps": 8})
    assert observed.tolist() != simulate(short, prepared.seed, silent).metrics["expert_load"]


def test_open_parameters_stay_at_their_defaults_in_an_instance():
    defaults = MoeParams().model_dump()
    for name in KINDS[KIND].open_parameters:
        assert instance(KIND, 0).params[name] == defaults[name]


def test_the_expert_buys_every_copy_that_the_budget_holds():
    for seed in range(2):
        visible, bought = instance(KIND, seed).visible, references(KIND, seed)["expert"].params
        slot_gb = visible["expert_bytes"] * visible["accounted_layers"] * visible["num_gpus"] / 1e9
        copies = bought["redundant_slots_per_gpu"]
        assert copies >= 2
        assert copies * slot_gb <= visible["hbm_budget_gb"] < (copies + 1) * slot_gb


def test_an_instance_whose_straggler_does_not_stand_out_is_drawn_again(monkeypatch):
    monkeypatch.setattr(balance_task, "LEAST_LEAD", 1000.0)
    monkeypatch.setattr(balance_task, "DRAWS", 2)
    with pytest.raises(AssertionError, match="none of 2 draws"):
        prepare(0, silent)
