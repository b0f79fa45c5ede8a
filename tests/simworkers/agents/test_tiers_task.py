"""The task `tiers-within-budget` tells people apart: over 20 seeds the references separate by a stated gap."""

import functools
from collections import Counter

import pytest

from labs.rubric import grade
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import build_scene
from simworkers.agents.simulate import simulate
from simworkers.agents.tasks import tiers_task
from simworkers.agents.tasks.tier_budget import ALL_HOST, ALL_POOL, NEITHER, PURE, waits_us
from simworkers.agents.tasks.tiers_task import prepare, scene_of
from tests.simworkers.agents.bounded import bounded_tasks, whole_run
from tests.simworkers.agents.tasks import constants_that_come_near, earned
from tests.simworkers.tasks import SEEDS, silent

KIND = "tiers-within-budget"
BOUNDS = ("tiers_runner_up_ttft_us", "tiers_best_ttft_us")
TASKS = bounded_tasks("compare_tiers", BOUNDS)
KINDS, instance, references = TASKS.kinds, TASKS.instance, TASKS.references
measured, result, rubric = TASKS.measured, TASKS.result, TASKS.rubric


@functools.cache
def right(seed):
    """The best of the three plain decisions, as free runs with other seeds find it."""
    params = scene_of(instance(KIND, seed).visible)
    waits = waits_us(build_scene(params, tiers_task.PRACTICE_SEEDS[0]), lambda: None, PURE)
    return min(waits, key=waits.__getitem__)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in references(KIND, seed))
    assert naive == 0
    assert misconception == 0
    assert expert >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_second_best_plain_decision_and_the_best_way_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "expert")
    assert metrics["tiers_runner_up_ttft_us"] >= 1.2 * metrics["tiers_best_ttft_us"]


@pytest.mark.slow
def test_each_of_the_three_decisions_is_right_in_some_instances_and_none_in_most():
    found = Counter(right(seed) for seed in SEEDS)
    assert all(found[parts] >= 3 for parts in (NEITHER, ALL_HOST, ALL_POOL))
    assert max(found.values()) <= 0.6 * len(SEEDS)


def spent(seed):
    """Way to spend the budget → what it earns."""
    prepared = instance(KIND, seed)
    scene = build_scene(AgentParams.model_validate(prepared.params), prepared.seed)
    waits = waits_us(scene, lambda: None)
    within = {"within_memory_budget": 1}
    return {way: earned(TASKS, KIND, seed, {"ttft_mean_us": wait} | within) for way, wait in waits.items()}


@pytest.mark.slow
def test_the_same_purchase_for_every_load_earns_a_fifth_less_than_looking():
    """Every expert's answer is among them."""
    experts = [result(KIND, seed, "expert") for seed in SEEDS]
    assert not constants_that_come_near(experts, [spent(seed) for seed in SEEDS], gap=0.2)


@pytest.mark.slow
def test_a_pool_that_loads_more_slowly_than_the_replica_computes_is_never_the_best_purchase():
    for seed in SEEDS:
        visible = instance(KIND, seed).visible
        if visible["load_us_per_1000_tokens_from_pool"] > visible["compute_us_per_1000_tokens"]:
            assert right(seed) != ALL_POOL


def test_over_the_budget_the_best_memory_earns_nothing():
    prepared = instance(KIND, 0)
    everything = {"host_gb": 16_000, "pool_gb": 256_000}
    params = AgentParams.model_validate(prepared.params | everything)
    sheet = grade(simulate(params, prepared.seed, silent).metrics, rubric(KIND), prediction={"hit_rate": 1.0})
    assert [float(row.earned) for row in sheet.criteria] == [0.5, 0, 0]


def test_the_bounds_do_not_depend_on_what_is_bought():
    found = {
        tuple(whole_run(TASKS, KIND, 0, who)[name] for name in BOUNDS)
        for who in ("naive", "misconception", "expert")
    }
    assert len(found) == 1


def test_only_the_two_sizes_are_open():
    assert KINDS[KIND].open_parameters == ("host_gb", "pool_gb")


def test_an_instance_is_drawn_from_its_seed_alone_and_what_is_shown_does_not_name_it():
    assert prepare(0, silent) == instance(KIND, 0)
    assert instance(KIND, 0).params != instance(KIND, 1).params
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)


def test_a_load_at_which_all_decisions_are_alike_is_drawn_again(monkeypatch):
    monkeypatch.setattr(tiers_task, "LEAST_DISTANCE", 1000.0)
    monkeypatch.setattr(tiers_task, "DRAWS", 2)
    with pytest.raises(AssertionError, match="none of 2 draws"):
        prepare(0, silent)
