"""What tasks judge a run against: ways to spend a memory budget, prefill caps, probes of a pipeline."""

from dataclasses import replace

import pytest

from simworkers import strict_json
from simworkers.agents import compare
from simworkers.agents.params import AgentParams
from simworkers.agents.probe_params import ProbeRule
from simworkers.agents.scene import build_scene
from simworkers.agents.simulate import simulate
from simworkers.agents.tasks.bounds import bound_scalars
from simworkers.agents.tasks.prefill_caps import CAPS, keeping, serve_by_cap
from simworkers.agents.tasks.tier_budget import (
    ALL_HOST,
    ALL_POOL,
    NEITHER,
    PARTS,
    all_ways,
    is_within,
    memory_usd,
    runner_up,
    waits_us,
)
from simworkers.agents.work import CAPS as COUNTED_CAPS
from simworkers.agents.work import COMPARED as COUNTED_COMPARED
from simworkers.agents.work import WAYS as COUNTED_WAYS
from tests.simworkers.tasks import silent

SMALL = {
    "sessions": 10,
    "sessions_at_once": 10,
    "turns_percent": 10,
    "context_percent": 30,
    "kv_blocks": 2500,
    "policy": "round_robin",
    "compare_policies": False,
}
MONEY = {"memory_budget_usd": 1000.0, "host_usd_per_gb": 3.0, "pool_usd_per_gb": 4.0}


def small(**changes):
    return AgentParams.model_validate(SMALL | changes)


def test_host_memory_is_paid_for_each_replica_and_the_pool_once():
    params = small(replicas=4, host_gb=10, pool_gb=7, host_usd_per_gb=3.0, pool_usd_per_gb=2.0)
    assert memory_usd(params) == 4 * 10 * 3 + 7 * 2


def test_every_way_fits_the_budget_and_one_gigabyte_more_would_not():
    params = small(**MONEY)
    for (host, pool), way in all_ways(params).items():
        assert is_within(params.model_copy(update=vars(way)))
        if host + pool == PARTS and host:
            assert not is_within(params.model_copy(update=vars(replace(way, host_gb=way.host_gb + 1))))


def test_without_a_budget_nothing_is_over_it():
    assert is_within(small(host_gb=16_000, pool_gb=256_000))


def test_ways_are_all_that_parts_of_a_budget_can_be():
    ways = all_ways(small(**MONEY))
    assert len(ways) == COUNTED_WAYS
    assert vars(ways[NEITHER]) == {"host_gb": 0, "pool_gb": 0}
    assert vars(ways[ALL_HOST]) == {"host_gb": 83, "pool_gb": 0}
    assert vars(ways[ALL_POOL]) == {"host_gb": 0, "pool_gb": 250}


def test_the_largest_budget_at_the_lowest_prices_buys_tiers_that_can_be_played():
    params = small(memory_budget_usd=1e7, host_usd_per_gb=0.001, pool_usd_per_gb=0.001, sessions=2)
    waits = waits_us(build_scene(params, 3), lambda: None)
    assert len(waits) == COUNTED_WAYS


def test_what_requests_wait_with_a_way_is_what_a_run_with_it_reports():
    params = small(**MONEY, host_gb=5)
    scene = build_scene(params, 3)
    waits = waits_us(scene, lambda: None)
    for parts in (NEITHER, ALL_HOST, ALL_POOL):
        bought = params.model_copy(update=vars(all_ways(params)[parts]))
        assert waits[parts] == simulate(bought, 3, silent).metrics["ttft_mean_us"]
    assert waits[ALL_POOL] < waits[NEITHER]


def test_the_runner_up_is_the_second_best_that_does_not_mix():
    waits = {NEITHER: 3.0, ALL_HOST: 1.0, ALL_POOL: 2.0, (1, 1): 0.5}
    assert runner_up(waits) == 2.0


def test_what_users_get_under_a_cap_is_what_a_run_with_it_reports():
    params = small(policy="sticky")
    by_cap = serve_by_cap(build_scene(params, 3), lambda: None)
    assert tuple(by_cap) == CAPS
    assert len(CAPS) == COUNTED_CAPS
    for cap in (64, 512, 0):
        metrics = simulate(params.model_copy(update={"prefill_cap_tokens": cap}), 3, silent).metrics
        assert by_cap[cap].ttft_mean_us == metrics["ttft_mean_us"]
        assert by_cap[cap].interactivity_p10 == metrics["interactivity_p10"]


def test_a_cap_keeps_the_floor_only_with_every_request_completed():
    by_cap = serve_by_cap(build_scene(small(policy="sticky"), 3), lambda: None)
    requests = by_cap[0].completed
    lost = {**by_cap, 64: replace(by_cap[64], completed=requests - 1)}
    assert 64 in keeping(by_cap, 1.0, requests)
    assert keeping(lost, 1.0, requests) == list(CAPS[1:])
    assert keeping(by_cap, 1e9, requests) == []


def test_nothing_is_played_that_no_parameter_asks_for():
    steps = []
    found = bound_scalars(build_scene(small(), 3), lambda: steps.append(1))
    assert not steps
    assert found["tiers_best_ttft_us"] == found["caps_best_ttft_us"] == 0
    assert found["pp_wins_ratio"] == found["pp_loses_ratio"] == 1


@pytest.mark.parametrize(
    ("asked", "steps"), [("compare_caps", COUNTED_CAPS), ("compare_tiers", COUNTED_WAYS)]
)
def test_a_comparison_takes_the_steps_and_the_time_that_are_counted_for_it(asked, steps):
    taken = []
    bound_scalars(build_scene(small(**MONEY, **{asked: True}), 3), lambda: taken.append(1))
    assert len(taken) == steps
    assert small(**{asked: True}).expected_seconds() > small().expected_seconds()


def test_comparing_policies_takes_no_more_simulations_than_are_counted_for_it():
    """Those that are compared always, and a run's own beside them."""
    assert (len(compare.COMPARED) + 1) * len(compare.LOADS_PERCENT) == COUNTED_COMPARED


def test_a_rule_names_what_is_not_as_it_has_to_be():
    values = {
        "link": "network",
        "prompts": "fresh",
        "context_percent": 10,
        "output_percent": 5,
        "sessions_at_once": 16,
        "token_budget": 1024,
    }
    params = strict_json.check(AgentParams, {"pp_wins": values, "pp_loses": values | {"link": "nvlink"}})
    assert params.pp_wins is not None
    assert params.pp_loses is not None
    rule = ProbeRule(differ="link", sessions_at_once=8)
    assert rule.fault(params.pp_wins) == "sessions_at_once has to be 8"
    assert rule.difference(params.pp_wins, params.pp_loses) is None
    assert "differs in link" in (
        ProbeRule(differ="prompts").difference(params.pp_wins, params.pp_loses) or ""
    )
    assert ProbeRule().difference(params.pp_wins, params.pp_loses) is None
