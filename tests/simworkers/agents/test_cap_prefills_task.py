"""The task `cap-prefills` tells people apart: over 20 seeds the references separate by a stated gap."""

import functools
from collections import Counter
from dataclasses import replace

import pytest

from simworkers.agents.params import AgentParams
from simworkers.agents.scene import build_scene, build_setup
from simworkers.agents.tasks import cap_prefills_task
from simworkers.agents.tasks.cap_prefills_task import prepare
from simworkers.agents.tasks.prefill_caps import serve_by_cap
from tests.simworkers.agents.bounded import bounded_tasks, whole_run
from tests.simworkers.agents.tasks import constants_that_come_near, earned
from tests.simworkers.tasks import SEEDS, silent

KIND = "cap-prefills"
BOUNDS = ("caps_careful_ttft_us", "caps_best_ttft_us")
TASKS = bounded_tasks("compare_caps", BOUNDS)
KINDS, instance, references = TASKS.kinds, TASKS.instance, TASKS.references
measured, result, sheet = TASKS.measured, TASKS.result, TASKS.sheet


HANDED_IN = (128, 160, 192, 256, 512, 1024)  # caps
BUDGETS = (96, 128, 192, 256, 512)  # token budgets without a cap


@functools.cache
def reached(seed):
    """Cap or token budget → what it earns, on the load of the graded run."""
    prepared = instance(KIND, seed)
    params = AgentParams.model_validate(prepared.params)
    scene = build_scene(params, prepared.seed)
    found = {f"cap {cap}": service for cap, service in serve_by_cap(scene, lambda: None, HANDED_IN).items()}
    for budget in BUDGETS:
        small = params.model_copy(update={"token_budget": budget})
        setup = build_setup(small, scene.workload.block_size, prepared.seed)
        found[f"budget {budget}"] = serve_by_cap(replace(scene, setup=setup), lambda: None, [0])[0]
    requests, floor = len(scene.workload.turns), params.floor_tokens_per_s
    return {
        name: earned(
            TASKS,
            KIND,
            seed,
            {
                "keeps_floor": int(service.interactivity_p10 >= floor),
                "completed_share": service.completed / requests,
                "ttft_mean_us": service.ttft_mean_us,
            },
        )
        for name, service in found.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in ("naive", "misconception", "expert"))
    assert naive == 0
    assert misconception == 0
    assert expert >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_most_careful_cap_and_the_best_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "expert")
    assert metrics["caps_careful_ttft_us"] >= 1.2 * metrics["caps_best_ttft_us"]


@pytest.mark.slow
def test_the_same_cap_or_budget_for_every_load_earns_a_fifth_less_than_looking():
    """The experts' answers are among them. A cap of 64 earns nothing, none breaks the floor."""
    experts = [result(KIND, seed, "expert") for seed in SEEDS]
    assert not constants_that_come_near(experts, [reached(seed) for seed in SEEDS], gap=0.2)


@pytest.mark.slow
def test_no_cap_is_best_in_most_instances():
    best = Counter(references(KIND, seed)["expert"].params["prefill_cap_tokens"] for seed in SEEDS)
    assert set(best) == {128, 256, 512}
    assert max(best.values()) <= 0.6 * len(SEEDS)


@pytest.mark.parametrize("seed", range(2))
def test_half_the_budget_breaks_the_floor_and_earns_nothing(seed):
    assert result(KIND, seed, "half") == 0
    rows = {row.name: row for row in sheet(KIND, seed, "half").criteria}
    assert not rows["floor"].passed
    assert rows["wait"].share > 0.9


def test_careful_caps_keep_the_floor_with_everyone_served_and_let_prompts_wait():
    rows = {row.name: row for row in sheet(KIND, 0, "misconception").criteria}
    assert rows["floor"].passed
    assert rows["complete"].passed
    assert rows["wait"].share == 0


def test_the_bounds_do_not_depend_on_the_cap_that_is_handed_in():
    found = {
        tuple(whole_run(TASKS, KIND, 0, who)[name] for name in BOUNDS)
        for who in ("naive", "misconception", "expert")
    }
    assert len(found) == 1


def test_only_the_scheduler_is_open():
    assert KINDS[KIND].open_parameters == ("token_budget", "prefill_cap_tokens")


def test_an_instance_is_drawn_from_its_seed_alone_and_what_is_shown_does_not_name_it():
    assert prepare(0, silent) == instance(KIND, 0)
    assert instance(KIND, 0).params != instance(KIND, 1).params
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)


def test_a_load_whose_floor_no_cap_breaks_is_drawn_again(monkeypatch):
    monkeypatch.setattr(cap_prefills_task, "BROKEN_BY", 100.0)
    monkeypatch.setattr(cap_prefills_task, "DRAWS", 2)
    with pytest.raises(AssertionError, match="none of 2 draws"):
        prepare(0, silent)
