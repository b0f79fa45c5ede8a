"""The task `best-throughput` tells people apart: over 20 seeds the references separate by a stated gap."""

import statistics
from collections import Counter

import pytest
from pydantic import ValidationError

from simworkers.agents.params import AgentParams
from simworkers.agents.tasks import throughput_task
from simworkers.agents.tasks.anchors import searched_rate, splits
from simworkers.agents.tasks.throughput_task import GPUS, prepare
from tests.simworkers.agents.tasks import (
    KINDS,
    SEEDS,
    TASKS,
    constants_that_come_near,
    earned,
    instance,
    measured,
    references,
    result,
    silent,
)

KIND = "best-throughput"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in ("naive", "misconception", "expert"))
    assert naive == 0
    assert misconception <= 0.2
    assert expert >= 0.8


@pytest.mark.slow
def test_pinning_by_hash_earns_next_to_nothing_on_average():
    assert statistics.fmean(result(KIND, seed, "misconception") for seed in SEEDS) <= 0.05


def of_choice(seed, choice):
    """What it earns to set these parameters and nothing else."""
    drawn = instance(KIND, seed)
    params = AgentParams.model_validate(drawn.params | choice)
    rate = searched_rate(params, drawn.seed, params.policy)
    return earned(TASKS, KIND, seed, {"search_tokens_per_gpu_s": rate})


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_lesson_alone_earns_nothing(seed):
    """Sticky until saturated, then spill, with or without a cap on prefills: the division is what counts."""
    assert [of_choice(seed, lesson) for lesson in throughput_task.lessons()] == [0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_baseline_and_bound_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "naive")
    assert metrics["anchor_high"] >= 1.2 * metrics["anchor_low"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_a_learner_sets_moves_neither_baseline_nor_bound(seed):
    naive, expert = (measured(KIND, seed, who) for who in ("naive", "expert"))
    assert [naive[f"anchor_{name}"] for name in ("low", "high")] == [
        expert[f"anchor_{name}"] for name in ("low", "high")
    ]
    assert naive["search_tokens_per_gpu_s"] == naive["anchor_low"]


def divided(seed, size, policy):
    """What it earns to have replicas of so many GPUs."""
    try:
        return of_choice(seed, {"tensor_parallel": size, "replicas": GPUS // size, "policy": policy})
    except ValueError:  # the model does not fit
        return 0.0


@pytest.mark.slow
def test_the_same_division_everywhere_earns_a_fifth_less_than_looking():
    """Every expert's answer is among them."""
    policies = ("sticky_spill", "prefix_else_balance", "sticky")
    found = [
        {(size, policy): divided(seed, size, policy) for size in (1, 2, 4, 8) for policy in policies}
        for seed in SEEDS
    ]
    experts = [result(KIND, seed, "expert") for seed in SEEDS]
    assert not constants_that_come_near(experts, found, gap=0.2)


def test_the_number_of_gpus_cannot_be_changed():
    drawn = instance(KIND, 0).params
    with pytest.raises(ValidationError, match="are 32 GPUs, not 16"):
        AgentParams.model_validate(drawn | {"replicas": 16})


def test_who_routes_schedules_and_divides_is_open_and_nothing_else():
    opened = KINDS[KIND].open_parameters
    assert {"replicas", "tensor_parallel", "policy", "token_budget", "prefill_cap_tokens"} <= set(opened)
    assert not {"gpu_budget", "kv_blocks", "sessions", "gpu", "floor_tokens_per_s"} & set(opened)


def test_what_is_shown_holds_no_seed_of_the_graded_run():
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)
    assert instance(KIND, 0).seed not in instance(KIND, 0).visible["practice_seeds"]


def test_an_instance_is_drawn_from_its_seed_alone():
    assert prepare(1, silent) == instance(KIND, 1)
    assert instance(KIND, 0).params != instance(KIND, 1).params


def test_an_instance_whose_bound_is_near_the_baseline_is_drawn_again(monkeypatch):
    monkeypatch.setattr(throughput_task, "LEAST_DISTANCE", 1e9)
    monkeypatch.setattr(throughput_task, "DRAWS", 1)
    with pytest.raises(AssertionError, match="none of 1 draws"):
        prepare(0, silent)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_floor_ends_the_search_and_not_the_number_of_sessions(seed):
    """Of the cluster of today, of pinned sessions, of the expert, and of every division whose KV never runs out."""
    drawn = instance(KIND, seed)
    sessions = drawn.params["sessions"]
    for who in ("naive", "misconception", "expert"):
        assert measured(KIND, seed, who)["search_sessions"] < sessions
    params = AgentParams.model_validate(drawn.params | {"policy": "sticky"})
    for split in splits(params):
        endless = params.model_copy(update=split)
        assert not throughput_task.serves_all(endless, drawn.seed, is_endless=True)


@pytest.mark.slow
def test_the_expert_predicts_the_load_from_a_free_run_within_a_factor_of_two():
    """Practice has other sessions, drawn alike."""
    for seed in range(3):
        predicted = references(KIND, seed)["expert"].prediction["sessions_at_once"]
        assert 0.5 < predicted / measured(KIND, seed, "expert")["search_sessions"] < 2


@pytest.mark.slow
def test_no_load_is_the_largest_in_nearly_all():
    loads = Counter(measured(KIND, seed, "expert")["search_sessions"] for seed in SEEDS)
    assert max(loads.values()) <= 0.4 * len(SEEDS)
