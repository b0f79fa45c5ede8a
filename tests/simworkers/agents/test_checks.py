"""What must hold of every run of the agent lab, and that its checks would find what does not."""

from dataclasses import replace
from functools import cache

import pytest

from simworkers.agents.checks import check
from simworkers.agents.scene import build_scene
from simworkers.agents.serving.cluster import simulate_cluster
from simworkers.agents.serving.workload import one_after_another
from tests.simworkers.agents.small_runs import TIGHT, params_of, report_of, states


@pytest.mark.parametrize(
    "changes",
    [
        {},
        TIGHT,
        {"shared_prefix_tokens": 20_000, "policy": "longest_prefix"},
        {"cache_outputs": False, "full_hit_recompute": False},
        {"incident": "fail", "incident_at_s": 30, "incident_for_s": 60},
        {"incident": "drain", "incident_at_s": 30, "incident_for_s": 0},
        {"pipeline_parallel": 2, "prefill_cap_tokens": 512},
        {"kv_blocks": 3000, "clip_oversize": True},
    ],
)
def test_every_invariant_holds(changes):
    assert set(states(report_of(**changes)).values()) == {"held"}


def test_writes_are_said_to_keep_up_only_where_a_tier_is_written_to():
    assert "write_back_keeps_up" not in report_of().invariants
    for tier in ("host_gb", "pool_gb"):
        assert report_of(**{tier: 60}).invariants["write_back_keeps_up"].state == "held"


def test_a_turn_larger_than_the_cache_is_the_settings_fault_and_named():
    invariant = report_of(kv_blocks=10).invariants["everything_is_served"]
    assert invariant.state == "broken_by_setting"
    assert "larger than a replica's whole cache" in (invariant.first_event or "")


def test_a_horizon_that_cuts_is_the_settings_fault_and_nothing_elses():
    found = states(report_of(horizon_s=20))
    assert found.pop("everything_is_served") == "broken_by_setting"
    assert set(found.values()) == {"held"}


def test_nobody_left_to_serve_is_the_settings_fault_and_lasts_to_the_horizon():
    report = report_of(replicas=1, incident="fail", incident_at_s=20, incident_for_s=0, horizon_s=1000)
    assert report.invariants["everything_is_served"].state == "broken_by_setting"
    assert report.metrics["window_s"] == 1000
    assert report.metrics["ttft_p99_us"] == 1000 * 10**6


def test_writes_that_a_link_could_not_carry_are_the_settings_fault():
    report = report_of(
        **TIGHT | {"host_gb_per_s": 0.1, "sessions": 12, "sessions_at_once": 12, "think_percent": 0}
    )
    assert report.metrics["write_back_share"] > 1
    assert report.invariants["write_back_keeps_up"].state == "broken_by_setting"


def test_more_kv_than_the_gpus_hold_is_played_and_named_as_the_settings_doing():
    """Two H200 have 282 GB, of which nine tenths are for 65.5 GB of weights and for KV."""
    report = report_of(kv_blocks=25_000)
    assert report.metrics["kv_bytes"] == 25_000 * 64 * 262_144
    invariant = report.invariants["kv_fits_in_hbm"]
    assert invariant.state == "broken_by_setting"
    assert invariant.first_event == (
        "KV of 419 GB is more than a replica's GPUs hold beside the weights, 188 GB"
    )
    assert report_of(kv_blocks=11_217).invariants["kv_fits_in_hbm"].state == "held"
    assert report_of(kv_blocks=11_218).invariants["kv_fits_in_hbm"].state == "broken_by_setting"


@cache
def played(**changes):
    scene = build_scene(params_of(**changes), 1)
    return scene, one_after_another(scene.workload, scene.trace)


def tampered(tamper, **changes):
    """What the checks say after somebody has changed the outcome."""
    scene, recorded = played(**changes)
    outcome = simulate_cluster(scene.workload, scene.setup)
    tamper(outcome)
    return {name for name, one in check(scene, outcome, recorded).items() if one.state == "broken"}


def hit_out_of_nothing(outcome):
    first = min(outcome.requests, key=lambda request: (request.admitted_at, request.turn.number))
    first.found = first.found._replace(hbm=first.turn.hit_cap)


def hold_more_than_there_is(outcome):
    outcome.replicas[1].peak_held_blocks = 10**9


def end_a_turn_twice(outcome):
    outcome.requests.append(outcome.requests[0])


def find_less_than_nothing(outcome):
    outcome.requests[-1].found = outcome.requests[-1].found._replace(pool=-(10**6))


@pytest.mark.parametrize(
    ("tamper", "broken"),
    [
        (lambda outcome: None, set()),
        (hit_out_of_nothing, {"no_hit_without_an_earlier_request"}),
        (hold_more_than_there_is, {"kv_stays_within_its_room"}),
        (end_a_turn_twice, {"every_request_once"}),
        (find_less_than_nothing, {"every_request_once"}),
    ],
)
def test_a_fault_of_ours_is_found_by_the_check_that_is_meant_to(tamper, broken):
    assert tampered(tamper) == broken


def test_a_cache_that_hits_otherwise_than_a_replay_is_a_fault_of_ours():
    """One answer's blocks fewer than the trace's flags say."""
    scene, recorded = played()
    outcome = simulate_cluster(scene.workload, scene.setup)
    forgetful = replace(recorded, turns=[replace(turn, kept=()) for turn in recorded.turns])
    found = check(scene, outcome, forgetful)["lone_replica_hits_what_a_replay_hits"]
    assert found.state == "broken" and "by replay" in (found.first_event or "")


def test_a_cache_that_lost_count_of_its_blocks_is_a_fault_of_ours():
    def lose_a_block(outcome):
        outcome.replicas[0].cache.held_blocks += 1

    assert tampered(lose_a_block) == {"kv_stays_within_its_room"}
