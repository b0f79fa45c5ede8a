"""The task `survive-a-death` tells people apart: over 20 seeds the references separate by a stated gap."""

import functools
import statistics

import pytest
from pydantic import ValidationError

from simworkers.agents.params import AgentParams
from simworkers.agents.tasks import survival_task
from simworkers.agents.tasks.anchors import mean_ttft_us, service_of
from simworkers.agents.tasks.survival_task import prepare
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
    share,
    silent,
)

KIND = "survive-a-death"
POLICIES = survival_task.ALONE
# Halves of the offer, beside the replicas and in the pool.
NOWHERE, HOSTS, POOL, BOTH = (0, 0), (2, 0), (0, 2), (1, 1)
TAUGHT = {"policy": "sticky_spill"}  # the lesson: sticky until the replica saturates, then spill


def spent(seed, parts, policy):
    """What it earns to spend the offer so."""
    prepared = instance(KIND, seed)
    half = prepared.params["memory_offer_gb"] // 2
    memory = {"host_gb": parts[0] * half // prepared.params["replicas"], "pool_gb": parts[1] * half}
    params = AgentParams.model_validate(prepared.params | memory | policy)
    service = service_of(params, prepared.seed)
    served = {
        "ttft_mean_us": mean_ttft_us(params, prepared.seed),
        "keeps_floor": int(service.interactivity_p10 >= params.floor_tokens_per_s),
        "completed_share": service.completed / len(service.ttft_us),
    }
    return earned(TASKS, KIND, seed, served)


@functools.cache
def spendings(seed):
    """(parts, policy) → what it earns. Asked for right after the draw, which has played half of them."""
    return {
        (parts, *policy.values()): spent(seed, parts, policy)
        for parts in (NOWHERE, HOSTS, POOL, BOTH)
        for policy in POLICIES
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_policy_earns_anything_without_memory(seed):
    assert {earns for (parts, *_), earns in spendings(seed).items() if parts == NOWHERE} == {0}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    results = {who: result(KIND, seed, who) for who in references(KIND, seed)}
    assert results["naive"] == 0
    assert results["misconception"] <= 0.5
    assert results["expert"] >= max(0.65, results["misconception"] + 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_lesson_alone_earns_nothing(seed):
    assert references(KIND, seed)["lesson"].params == TAUGHT
    assert result(KIND, seed, "lesson") == 0


@pytest.mark.slow
def test_the_lesson_with_all_memory_in_one_place_earns_little_more_than_half_of_what_the_expert_does():
    expert = statistics.fmean(result(KIND, seed, "expert") for seed in SEEDS)
    for parts in (HOSTS, POOL):
        assert statistics.fmean(spendings(seed)[parts, TAUGHT["policy"]] for seed in SEEDS) <= 0.6 * expert


@pytest.mark.slow
def test_the_same_answer_everywhere_earns_a_fifth_less_than_looking():
    """Every expert's answer is among them, as far as an offer of another size allows."""
    experts = [result(KIND, seed, "expert") for seed in SEEDS]
    assert not constants_that_come_near(experts, [spendings(seed) for seed in SEEDS], gap=0.2)


@pytest.mark.slow
def test_host_memory_under_a_hash_earns_less_than_a_quarter_on_average():
    assert statistics.fmean(result(KIND, seed, "misconception") for seed in SEEDS) <= 0.25


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_anchors_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "lesson")
    assert metrics["anchor_low"] >= 1.2 * metrics["anchor_high"] > 0
    assert metrics["ttft_mean_us"] == metrics["anchor_low"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_expert_keeps_the_floor_and_who_leaves_everything_as_it_is_does_not(seed):
    assert share(KIND, seed, "expert", "floor") == 1
    assert share(KIND, seed, "naive", "floor") == 0


@pytest.mark.slow
def test_with_host_memory_the_policy_that_the_lesson_names_breaks_some_floors():
    places = [references(KIND, seed)["expert"].params for seed in SEEDS]
    beside = [seed for seed in SEEDS if "host_gb" in places[seed]]
    assert any(spendings(seed)[HOSTS, TAUGHT["policy"]] == 0 for seed in beside)


@pytest.mark.slow
def test_neither_place_is_right_in_most_instances():
    right = [
        next(name for name in ("host_gb", "pool_gb") if name in references(KIND, seed)["expert"].params)
        for seed in SEEDS
    ]
    assert max(right.count(name) for name in set(right)) <= 0.6 * len(SEEDS)


def test_what_a_learner_sets_moves_no_anchor():
    naive, expert = (measured(KIND, 0, who) for who in ("naive", "expert"))
    for name in ("anchor_low", "anchor_high"):
        assert naive[name] == expert[name]


@pytest.mark.slow
def test_a_replica_dies_while_it_works_and_its_requests_are_sent_again():
    assert sum(measured(KIND, seed, "lesson")["retries"] > 0 for seed in SEEDS) >= len(SEEDS) / 2


def test_everybody_is_served_under_every_reference():
    assert all(share(KIND, 0, who, "served") == 1 for who in references(KIND, 0))


def test_more_memory_than_is_offered_is_refused():
    drawn = instance(KIND, 0).params
    offer, replicas = drawn["memory_offer_gb"], drawn["replicas"]
    AgentParams.model_validate(drawn | {"pool_gb": offer})
    with pytest.raises(ValidationError, match=f"at most {offer} are offered"):
        AgentParams.model_validate(drawn | {"pool_gb": offer + 1})
    with pytest.raises(ValidationError, match=f"at most {offer} are offered"):
        AgentParams.model_validate(drawn | {"host_gb": offer // replicas, "pool_gb": offer % replicas + 1})


def test_neither_links_nor_the_death_are_open():
    assert not {
        "incident",
        "incident_at_s",
        "memory_offer_gb",
        "pool_gb_per_s",
        "replicas",
        "kv_blocks",
    } & set(KINDS[KIND].open_parameters)


def test_the_graded_seed_is_not_shown():
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)


def test_an_instance_is_drawn_from_its_seed_alone():
    assert prepare(1, silent) == instance(KIND, 1)
    assert instance(KIND, 0).params != instance(KIND, 1).params


def test_an_instance_whose_anchors_lie_near_one_another_is_drawn_again(monkeypatch):
    monkeypatch.setattr(survival_task, "LEAST_DISTANCE", 1e9)
    monkeypatch.setattr(survival_task, "DRAWS", 1)
    with pytest.raises(AssertionError, match="none of 1 draws"):
        prepare(0, silent)
