"""Replicas that die, drain and return; runs that are repeated or cut short."""

from dataclasses import replace

import pytest

from simworkers.agents import measure
from simworkers.agents.serving.cluster import Cluster, Incident
from simworkers.agents.serving.cost import FS_PER_US
from simworkers.agents.serving.policies import POLICIES
from simworkers.agents.serving.workload import build_workload
from tests.simworkers.agents import scenes
from tests.simworkers.agents.scenes import growing, trace_of

MS = 1000


def workload(sessions=4, turns=5):
    return build_workload(
        trace_of(*(growing(turns, first=6, step=4, gap_s=0.01, out=20) for _ in range(sessions)))
    )


def play(*incidents, **changes):
    values = {"incidents": incidents, "policy": "sticky", "kv_blocks": 300} | changes
    return scenes.play(workload(), scenes.setup(**values))


def middle_us():
    return play().end_us // 2


def finished(outcome):
    return [one.turn.number for one in outcome.requests if one.finished_at is not None]


def new_tokens(requests):
    return sum(one.turn.input_tokens - one.found.blocks * scenes.BLOCK for one in requests)


EVERY_TURN = list(range(20))


def test_requests_of_a_dead_replica_are_served_again_elsewhere():
    outcome = play(Incident(middle_us(), 0, "fail"))
    retried = [one for one in outcome.requests if one.retries]
    assert retried and finished(outcome) == EVERY_TURN
    assert {one.replica for one in retried} == {1}
    assert all(one.outputs == one.turn.output_tokens for one in outcome.requests)


def test_a_dead_replica_is_sent_nothing_more():
    at_us = middle_us()
    late = [one for one in play(Incident(at_us, 0, "fail")).requests if one.sent_at > at_us * FS_PER_US]
    assert late and {one.replica for one in late} == {1}


def test_a_retried_request_counts_its_cached_tokens_once_as_first_admitted():
    """On its second replica it finds nothing; what counts is what it found at first."""
    undisturbed = {one.turn.number: one.found for one in play().requests}
    retried = [one for one in play(Incident(middle_us(), 0, "fail")).requests if one.retries]
    admitted = [one for one in retried if one.admitted_at < middle_us() * FS_PER_US and one.turn.index]
    assert admitted
    assert all(one.found == undisturbed[one.turn.number] and one.found.hbm for one in admitted)


def test_a_retried_request_has_its_first_token_when_it_comes_at_last():
    at_us = middle_us()
    retried = [one for one in play(Incident(at_us, 0, "fail")).requests if one.retries]
    assert all(one.first_token_at > at_us * FS_PER_US for one in retried)


def test_a_replica_that_returns_takes_requests_again_and_has_lost_its_kv():
    """It dies and returns while the only session thinks about its third turn."""
    thinking_us = 2_500 * MS
    incidents = Incident(thinking_us, 0, "fail"), Incident(thinking_us + 1, 0, "return")
    made = build_workload(trace_of(growing(4, first=6, step=4)))
    outcome = scenes.play(made, scenes.setup(replicas=1, incidents=incidents))
    assert [one.found and one.found.hbm for one in outcome.requests] == [0, 6, 10, 0]
    assert not any(one.retries for one in outcome.requests)


def test_a_draining_replica_ends_what_it_has_and_takes_nothing_new():
    at_us = middle_us()
    outcome = play(Incident(at_us, 0, "drain"))
    assert finished(outcome) == EVERY_TURN
    assert not any(one.retries for one in outcome.requests)
    sent_there = [one.sent_at for one in outcome.requests if one.replica == 0]
    assert sent_there and max(sent_there) <= at_us * FS_PER_US
    assert max(one.finished_at for one in outcome.requests if one.replica == 0) > at_us * FS_PER_US


def test_a_drained_replica_that_returns_still_has_its_kv():
    at_us = middle_us()
    drained = play(Incident(at_us, 0, "drain"), Incident(at_us + 1, 0, "return"))
    died = play(Incident(at_us, 0, "fail"), Incident(at_us + 1, 0, "return"))
    assert new_tokens(drained.requests) == new_tokens(play().requests)
    assert died.end_us > drained.end_us


def test_while_all_replicas_are_down_requests_wait_for_the_first_that_returns():
    at_us = middle_us()
    back_us = at_us + 500 * MS
    outcome = play(Incident(at_us, 0, "fail"), Incident(at_us, 1, "fail"), Incident(back_us, 1, "return"))
    assert finished(outcome) == EVERY_TURN
    waited = [one for one in outcome.requests if one.retries]
    assert waited and {one.replica for one in waited} == {1}
    assert all(one.finished_at > back_us * FS_PER_US for one in waited)


def test_waiting_for_a_replica_that_returns_is_queueing_also_of_who_had_a_seat_before():
    at_us, for_us = play(replicas=1).end_us // 2, 5_000_000
    outcome = play(Incident(at_us, 0, "fail"), Incident(at_us + for_us, 0, "return"), replicas=1)
    retried = [one for one in outcome.requests if one.retries]
    assert retried and all(one.queued_fs >= for_us * FS_PER_US for one in retried)
    whole = sum(one.finished_at - one.sent_at for one in outcome.requests)
    waited = sum(sum(one.waits(one.finished_at)) for one in outcome.requests)
    assert measure.shares_of_time(outcome)["queue"] >= len(retried) * for_us * FS_PER_US / whole
    assert waited < whole


def test_tokens_to_compute_count_where_they_were_computed_first():
    outcome = play(Incident(middle_us(), 0, "fail"))
    retried = [one for one in outcome.requests if one.retries and one.admitted_at < middle_us() * FS_PER_US]
    assert retried and {one.found_on for one in retried} == {0}
    by_replica = measure.uncached_by_replica(workload(), outcome)
    assert by_replica[0] == new_tokens([one for one in outcome.requests if one.found_on == 0])


def test_where_nobody_returns_the_run_ends_with_requests_unfinished():
    at_us = middle_us()
    outcome = play(Incident(at_us, 0, "fail"), Incident(at_us, 1, "fail"))
    assert 0 < len(finished(outcome)) < 20
    assert all(replica.cache.used_blocks == 0 for replica in outcome.replicas)


def test_what_happens_to_a_replica_twice_happens_once():
    at_us = middle_us()
    once = play(Incident(at_us, 0, "fail"))
    twice = play(Incident(at_us, 0, "fail"), Incident(at_us + MS, 0, "fail"))
    assert scenes.facts(once) == scenes.facts(twice)


@pytest.mark.parametrize("policy", POLICIES)
def test_sessions_are_counted_on_the_replica_of_their_last_request_until_they_end(policy):
    at_us = middle_us()
    outcome = play(Incident(at_us, 0, "fail"), Incident(at_us + 9 * MS, 0, "return"), policy=policy)
    assert [replica.sessions for replica in outcome.replicas] == [0, 0]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_run_twice_is_the_same_to_the_last_femtosecond(policy):
    at_us = middle_us()
    first, second = (play(Incident(at_us, 0, "fail"), policy=policy, kv_blocks=60) for _ in range(2))
    assert scenes.facts(first) == scenes.facts(second)
    assert (first.samples, first.events, first.end_us) == (second.samples, second.events, second.end_us)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_seed_decides_what_the_random_policy_draws_and_nothing_else(policy):
    one, other = (scenes.facts(play(policy=policy, seed=seed)) for seed in (1, 2))
    assert (one != other) is (policy == "random")


def test_each_request_of_a_long_workload_has_a_draw_of_its_own(monkeypatch):
    drawn = []

    def noting(ask, replicas, limits):
        drawn.append(ask.draw)
        return replicas[0]

    monkeypatch.setitem(POLICIES, "random", noting)
    turns = scenes.session(*(scenes.request(0.001 * turn, [0], out=1) for turn in range(9000)))
    scenes.play(build_workload(trace_of(turns)), scenes.setup(policy="random"))
    assert len(drawn) == len(set(drawn)) == 9000


def test_nothing_happens_behind_the_horizon():
    horizon_us = middle_us()
    outcome = play(horizon_us=horizon_us)
    assert outcome.end_us == horizon_us
    assert 0 < len(finished(outcome)) < 20
    assert all(one.sent_at <= horizon_us * FS_PER_US for one in outcome.requests)
    known = {one.turn.number: one for one in play().requests}
    for one in outcome.requests:
        if one.finished_at is not None:
            assert one.finished_at == known[one.turn.number].finished_at <= horizon_us * FS_PER_US


def test_steps_that_are_over_at_the_horizon_count_as_busy():
    cut = replace(scenes.setup(policy="sticky", kv_blocks=300), horizon_us=middle_us())
    in_stretches = Cluster(workload(), cut).play()
    alone = Cluster(workload(), scenes.every_step_alone(cut)).play()
    assert [one.busy for one in in_stretches.replicas] == [one.busy for one in alone.replicas]
    assert [one.outputs for one in in_stretches.requests] == [one.outputs for one in alone.requests]
