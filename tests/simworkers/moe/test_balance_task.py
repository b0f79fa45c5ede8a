"""The task tells people apart: over 20 seeds the three references separate by a stated gap."""

import functools

import numpy as np
import pytest

from simworkers.catalog import get_job
from simworkers.moe import balance_task
from simworkers.moe.balance_task import prepare, references
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate

SEEDS = range(20)
KIND = get_job("moe-eplb").tasks["balance-hbm"]


def silent(_done: int, _total: int) -> None:
    pass


@functools.cache
def instance(seed):
    return prepare(seed, silent)


@functools.cache
def graded(seed, who):
    prepared = instance(seed)
    submission = references(prepared)[who]
    params = MoeParams.model_validate(prepared.params | submission.params)
    return simulate(params, prepared.seed, silent).metrics


def share(seed, who):
    """What the rubric scores: the imbalance removed, and nothing beyond the budget."""
    metrics = graded(seed, who)
    contiguous, reached = metrics["max_over_mean_before_mean"], metrics["max_over_mean_mean"]
    removed = (contiguous - reached) / (contiguous - metrics["sampling_floor"])
    return removed * metrics["within_budget"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_three_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (share(seed, who) for who in ("naive", "misconception", "expert"))
    assert naive <= 0.05
    assert 0.1 <= misconception <= 0.6
    assert expert >= 0.88
    assert expert - misconception >= 0.3
    assert misconception - naive >= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_contiguous_and_the_sampling_floor_lie_a_fifth_apart(seed):
    metrics = graded(seed, "naive")
    assert metrics["max_over_mean_before_mean"] >= 1.2 * metrics["sampling_floor"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_visible_load_lets_an_expert_predict_straggler_and_imbalance(seed):
    metrics, prediction = graded(seed, "expert"), references(instance(seed))["expert"].prediction
    assert prediction["straggler_gpu"] == metrics["straggler_gpu_before"]
    assert prediction["max_over_mean"] == pytest.approx(metrics["max_over_mean_before_mean"], rel=0.05)


@pytest.mark.slow
def test_stragglers_differ_between_instances_so_that_guessing_fails():
    guessed = [graded(seed, "naive")["straggler_gpu_before"] for seed in SEEDS]
    assert max(np.bincount(guessed)) <= len(SEEDS) // 2


def test_as_many_copies_as_possible_break_the_budget():
    prepared = instance(0)
    params = MoeParams.model_validate(
        prepared.params | {"eplb": True, "redundant_slots_per_gpu": 8, "num_steps": 1}
    )
    assert simulate(params, prepared.seed, silent).metrics["within_budget"] == 0


def test_an_instance_is_drawn_from_its_seed_alone():
    assert prepare(3, silent) == instance(3)
    assert instance(3).params != instance(4).params


def test_the_observed_load_is_not_the_graded_one():
    observed = np.array(instance(0).visible["observed_load"])
    assert observed.shape == (3, instance(0).params["num_experts"])
    assert observed.tolist() != graded(0, "naive")["expert_load"]


def test_open_parameters_stay_at_their_defaults_in_an_instance():
    defaults = MoeParams().model_dump()
    for name in KIND.open_parameters:
        assert instance(0).params[name] == defaults[name]


def test_references_set_open_parameters_alone_and_predict_by_the_schema():
    for submission in references(instance(0)).values():
        assert set(submission.params) <= set(KIND.open_parameters)
        KIND.prediction.model_validate(submission.prediction)


def test_the_expert_buys_every_copy_that_the_budget_holds():
    for seed in range(3):
        bought = graded(seed, "expert")
        one_more = bought["extra_hbm_bytes"] + bought["expert_bytes"] * 58 * instance(seed).params["num_gpus"]
        assert bought["extra_hbm_bytes"] <= bought["hbm_budget_bytes"] < one_more


def test_an_instance_whose_straggler_does_not_stand_out_is_drawn_again(monkeypatch):
    monkeypatch.setattr(balance_task, "LEAST_LEAD", 1000.0)
    monkeypatch.setattr(balance_task, "DRAWS", 2)
    with pytest.raises(AssertionError, match="none of 2 draws"):
        prepare(0, silent)
