"""The task `route-by-score` tells people apart: over 20 seeds the references separate by a stated gap."""

import math
import statistics

import pytest

from simworkers.agents.params import AgentParams
from simworkers.agents.tasks import routing_task
from simworkers.agents.tasks.anchors import waited_rate
from simworkers.agents.tasks.open_parameters import ROUTING
from simworkers.agents.tasks.routing_task import PRACTICE_SEEDS, TRIED, UNITS_PERCENT, prepare
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

KIND = "route-by-score"
MISLED = ("misconception", "pinned", "loads")
# Weights for every router: the experts' in each unit, such as lie between two units, with the last replica, or extreme.
CONSTANTS = [
    *(
        (weights[0], weights[1], *(load * 100 / unit for load in weights[2:]))
        for unit in UNITS_PERCENT
        for weights in TRIED
    ),
    *((1.0, 0.0, load, load, 5 * load) for load in (0.03, 0.3)),
    *(
        ((*same_or_cached, load, load, 5 * load))
        for same_or_cached in ((0.0, 1.0), (1.0, 1.0))
        for load in (0.01, 0.1, 1.0)
    ),
    (1.0, 0.0, 0.0, 0.0, 0.5),
    (1.0, 0.0, 0.0, 0.0, 10.0),
    (1.0, 0.0, 0.3, 0.0, 0.0),
    (1.0, 0.0, 0.0, 0.3, 0.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    results = {who: result(KIND, seed, who) for who in references(KIND, seed)}
    assert results["naive"] == 0
    assert max(results[who] for who in MISLED) <= 0.6
    assert results["expert"] >= 0.6
    assert results["expert"] - max(results[who] for who in MISLED) >= 0.1


def weighed(seed, weights):
    """What these weights earn."""
    prepared = instance(KIND, seed)
    params = AgentParams.model_validate(prepared.params | dict(zip(ROUTING, weights, strict=True)))
    return earned(TASKS, KIND, seed, {"waited_tokens_per_s": waited_rate(params, prepared.seed)})


@pytest.mark.slow
def test_the_same_weights_for_every_router_earn_a_fifth_less_than_looking():
    found = [{weights: weighed(seed, weights) for weights in CONSTANTS} for seed in SEEDS]
    experts = [result(KIND, seed, "expert") for seed in SEEDS]
    assert not constants_that_come_near(experts, found, gap=0.2)


def test_only_what_loads_weigh_beside_a_cache_matters():
    """Weights in the router's unit do what those in another do there."""
    drawn = instance(KIND, 0)
    rates = set()
    for unit in UNITS_PERCENT:
        weights = (1.0, 0.0, *(load * 100 / unit for load in (0.125, 0.125, 0.5)))
        values = drawn.params | dict(zip(ROUTING, weights, strict=True)) | {"loads_percent": unit}
        rates.add(waited_rate(AgentParams.model_validate(values), drawn.seed))
    assert len(rates) == 1


@pytest.mark.slow
@pytest.mark.parametrize("who", MISLED)
def test_one_thing_alone_earns_less_than_half_on_average(who):
    assert statistics.fmean(result(KIND, seed, who) for seed in SEEDS) <= 0.45


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_baseline_and_bound_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "naive")
    assert metrics["anchor_high"] >= 1.2 * metrics["anchor_low"] > 0
    assert metrics["waited_tokens_per_s"] == metrics["anchor_low"]


def test_what_a_learner_sets_moves_neither_baseline_nor_bound():
    naive, expert = (measured(KIND, 0, who) for who in ("naive", "expert"))
    assert [naive[f"anchor_{name}"] for name in ("low", "high")] == [
        expert[f"anchor_{name}"] for name in ("low", "high")
    ]


def test_all_sessions_are_served_under_every_reference():
    assert all(share(KIND, 0, who, "served") == 1 for who in references(KIND, 0))


def test_the_ranked_metric_is_one_finite_number_and_more_of_it_earns_more():
    ordered = sorted(references(KIND, 1), key=lambda who: measured(KIND, 1, who)["waited_tokens_per_s"])
    assert all(math.isfinite(measured(KIND, 1, who)["waited_tokens_per_s"]) for who in ordered)
    results = [result(KIND, 1, who) for who in ordered]
    assert results == sorted(results)


def test_weights_are_open_and_nothing_else():
    names = {name for name in AgentParams.model_fields if name.startswith("weight_")}
    assert set(KINDS[KIND].open_parameters) == names
    assert "loads_percent" in instance(KIND, 0).visible


def test_the_graded_seed_is_none_that_is_shown():
    for seed in range(3):
        assert str(instance(KIND, seed).seed) not in repr(instance(KIND, seed).visible)
        assert instance(KIND, seed).seed not in PRACTICE_SEEDS


def test_an_instance_is_drawn_from_its_seed_alone():
    assert prepare(1, silent) == instance(KIND, 1)
    assert instance(KIND, 0).params != instance(KIND, 1).params


def test_an_instance_in_which_one_weight_alone_is_enough_is_drawn_again(monkeypatch):
    monkeypatch.setattr(routing_task, "MISLED_REACHES", -1e9)
    monkeypatch.setattr(routing_task, "DRAWS", 1)
    with pytest.raises(AssertionError, match="none of 1 draws"):
        prepare(0, silent)
