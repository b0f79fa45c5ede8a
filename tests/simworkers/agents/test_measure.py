"""Metrics by their definitions, on outcomes made by hand."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.agents import measure
from simworkers.agents.measure import Tokens, measure_service, nearest_rank
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import Scene
from simworkers.agents.serving.cluster import Cluster, Outcome, Sample
from simworkers.agents.serving.cost import FS_PER_S, FS_PER_US
from simworkers.agents.serving.requests import InFlight
from simworkers.agents.serving.run_cache import Found
from simworkers.agents.serving.workload import build_workload, one_after_another
from simworkers.agents.traffic.flags import HIT_RATE, Flags
from simworkers.agents.traffic.replay import prepare, replay
from tests.simworkers.agents.scenes import BLOCK, growing, request, session, setup, subagent, trace_of, traces

HORIZON_US = 1_000_000_000


def turns_of(*sessions):
    trace = trace_of(*sessions)
    return trace, build_workload(trace)


def served(
    turn,
    sent_us=0,
    *,
    found=(0, 0, 0),
    replica=0,
    admitted_us=None,
    first_us=None,
    finished_us=None,
    **others,
):
    """A turn's way; times in microseconds, None for what never came."""
    request = InFlight(turn, sent_at=sent_us * FS_PER_US, target=turn.input_tokens)
    request.replica = replica
    if found is not None:
        request.found, request.found_on = Found(*found), replica
        request.admitted_at = (sent_us if admitted_us is None else admitted_us) * FS_PER_US
    request.first_token_at = None if first_us is None else first_us * FS_PER_US
    request.finished_at = None if finished_us is None else finished_us * FS_PER_US
    for name, value in others.items():
        setattr(request, name, value)
    return request


def outcome_of(workload, requests, *, replicas=2, end_us=100_000, refused=(), samples=()):
    cluster = Cluster(workload, setup(replicas=replicas))
    return Outcome(list(requests), list(refused), cluster.replicas, list(samples), end_us, 0)


def scene_of(trace, workload, **values):
    """Two replicas of two GPUs each."""
    params = AgentParams(compare_policies=False, **values)
    return Scene(params, trace, workload, setup(replicas=2), gpus=4)


# Ranks -----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 100))
def test_the_nearest_rank_is_the_least_value_that_so_many_do_not_exceed(values, percent):
    ordered = sorted(values)
    found = nearest_rank(ordered, percent)
    at_most = sum(value <= found for value in ordered)
    below = sum(value < found for value in ordered)
    assert Fraction(at_most, len(ordered)) >= Fraction(percent, 100) > Fraction(below, len(ordered))


def interactivity_of(spans_us, outputs=11):
    """P90 floor of requests whose answers of so many tokens took so long after the first one."""
    _, workload = turns_of(*(session(request(0, [1, 2], out=outputs)) for _ in spans_us))
    requests = [
        served(turn, first_us=1000, finished_us=1000 + span)
        for turn, span in zip(workload.turns, spans_us, strict=True)
    ]
    return measure_service(workload, outcome_of(workload, requests), 4, HORIZON_US).interactivity_p10


def test_of_ten_requests_the_slowest_is_the_tenth_percentile_of_interactivity():
    assert interactivity_of([10_000] * 9 + [50_000]) == pytest.approx(200)  # 50 ms ÷ 10 = 5 ms a token


def test_of_eleven_requests_the_second_slowest_is_it():
    assert interactivity_of([10_000] * 9 + [20_000, 50_000]) == pytest.approx(500)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40))
def test_the_floor_is_the_nearest_rank_of_interactivity_itself(spans_us):
    rates = sorted(1e6 * 10 / span for span in spans_us)
    assert interactivity_of(spans_us) == pytest.approx(nearest_rank(rates, 10))


# Tokens ----------------------------------------------------------------------------------------


def test_tokens_are_split_by_tier_in_whole_blocks_and_the_rest_is_new():
    _, workload = turns_of(session(request(0, [1, 2, 3, 4, 5], more=3)))
    tokens = Tokens.of(served(workload.turns[0], found=(2, 1, 1)), BLOCK)
    assert tokens == Tokens(hbm=2 * BLOCK, host=BLOCK, pool=BLOCK, new=BLOCK + 3)


def test_a_partly_filled_block_that_was_found_counts_no_more_than_the_prompt_has():
    trace = trace_of(
        {"id": "s", "block_size": BLOCK, "requests": [{"t": 0, "in": 6, "out": 1, "hash_ids": [1, 2]}]}
    )
    workload = build_workload(trace, Flags(False, False, True, False))
    assert Tokens.of(served(workload.turns[0], found=(2, 0, 0)), BLOCK) == Tokens(6, 0, 0, 0)


def test_hits_and_imbalance_are_those_of_admitted_requests():
    _, workload = turns_of(growing(4))
    first, second, third, fourth = workload.turns  # 12, 20, 28 and 36 tokens
    outcome = outcome_of(
        workload,
        [
            served(first, found=(0, 0, 0), replica=0),
            served(second, found=(3, 0, 0), replica=1),
            served(third, found=(1, 2, 2), replica=0),
            served(fourth, found=None, replica=1),  # still waits
        ],
        replicas=2,
    )
    assert measure.hit_rate(workload, outcome) == (12 + 20) / (12 + 20 + 28)

    assert measure.uncached_by_replica(workload, outcome) == [12 + 8, 8]
    assert measure.imbalance([20, 8]) == 20 / 14


def test_a_refused_prompt_found_nothing():
    _, workload = turns_of(growing(2))
    admitted, refused = workload.turns
    outcome = outcome_of(workload, [served(admitted, found=(1, 0, 0))], refused=[refused.number])
    tokens = admitted.input_tokens + refused.input_tokens
    assert measure.prompt_tokens(workload, outcome) == tokens
    assert measure.hit_rate(workload, outcome) == BLOCK / tokens


@pytest.mark.parametrize(("uncached", "expected"), [([5, 5], 1), ([0, 0], 1), ([9], 1), ([8, 0, 0, 0], 4)])
def test_imbalance_is_the_maximum_by_the_mean(uncached, expected):
    assert measure.imbalance(uncached) == expected


# Service ---------------------------------------------------------------------------------------


def service_of(requests, workload, **others):
    return measure_service(workload, outcome_of(workload, requests, **others), 4, HORIZON_US)


def test_ttft_is_from_the_sending_to_the_first_token_and_tpot_is_what_follows():
    _, workload = turns_of(session(request(0, [1, 2], out=5)))
    service = service_of([served(workload.turns[0], 100, first_us=350, finished_us=1150)], workload)
    assert (service.ttft_us, service.tpot_us) == ([250], [200.0])
    assert (service.completed, service.output_tokens) == (1, 5)


def test_an_answer_of_one_token_has_no_tpot():
    _, workload = turns_of(session(request(0, [1, 2], out=1)))
    service = service_of([served(workload.turns[0], 100, first_us=350, finished_us=350)], workload)
    assert service.tpot_us == [] and service.interactivity_p10 == 0


def test_what_never_ends_counts_the_horizon_and_none_of_its_tokens():
    """Never sent, waiting, being read, answering: all the same to whoever waits."""
    _, workload = turns_of(growing(4, out=7))
    requests = [
        served(workload.turns[0], 5, found=None),
        served(workload.turns[1], 6),
        served(workload.turns[2], 7, first_us=10, outputs=3),
    ]
    service = service_of(requests, workload)
    assert service.ttft_us == [HORIZON_US] * 4
    assert (service.completed, service.output_tokens, service.tokens_per_gpu_s) == (0, 0, 0)


def test_throughput_is_over_all_gpus_and_the_whole_window():
    _, workload = turns_of(growing(2, out=50))
    requests = [served(turn, first_us=10, finished_us=500) for turn in workload.turns]
    service = service_of(requests, workload, end_us=5_000_000)
    assert service.tokens_per_gpu_s == 100 / (5 * 4)


def test_the_floor_is_lost_with_more_than_one_request_in_a_hundred():
    service = measure.Service(198, 10, [1], [40_000.0], 10, 4)
    assert measure.meets_goal(service, 200, 25.0)
    assert not measure.meets_goal(service, 201, 25.0)
    assert not measure.meets_goal(service, 200, 25.1)


# Ceiling ---------------------------------------------------------------------------------------


@given(traces, st.booleans(), st.booleans())
def test_the_ceiling_is_a_replay_with_endless_capacity(trace, keeps_answers, may_be_partial):
    flags = Flags(True, keeps_answers, may_be_partial, False)
    workload = build_workload(trace, flags)
    hits = replay(prepare(trace, flags, None), None).per_request
    recorded = one_after_another(workload, trace)
    cached = sum(
        min(blocks * BLOCK, turn.input_tokens) for blocks, turn in zip(hits, recorded.turns, strict=True)
    )
    total = sum(turn.input_tokens for turn in recorded.turns)
    assert measure.ceiling(recorded) == (cached / total if total else 0.0)


def test_the_ceiling_of_a_growing_context_is_all_but_its_new_blocks():
    trace = trace_of(growing(3))  # 12, 20, 28 tokens; an answer of 3 fills no block
    recorded = one_after_another(build_workload(trace, HIT_RATE), trace)
    assert measure.ceiling(recorded) == (12 + 20) / 60


# Time ------------------------------------------------------------------------------------------


def test_shares_of_time_add_up_to_one_and_name_what_was_waited_for():
    _, workload = turns_of(growing(2))
    requests = [
        # 100 µs: 30 blocked, 10 more in the queue, 20 loading, 40 served
        served(
            workload.turns[0],
            admitted_us=40,
            first_us=90,
            finished_us=100,
            queued_fs=10 * FS_PER_US,
            blocked_fs=30 * FS_PER_US,
            loading_fs=20 * FS_PER_US,
        ),
        # still blocked at the end, 100 µs after its sending
        served(workload.turns[1], found=None, queued_since=0, blocked_since=50 * FS_PER_US),
    ]
    outcome = outcome_of(workload, requests, end_us=100)
    outcome.replicas[0].busy.hbm = 3 * FS_PER_US
    outcome.replicas[1].busy.flops = FS_PER_US
    shares = measure.shares_of_time(outcome)
    assert shares == pytest.approx(
        {
            "hbm_bandwidth": 30 / 200,
            "flops": 10 / 200,
            "links": 20 / 200,
            "host": 0,
            "kv_capacity": (30 + 50) / 200,
            "queue": (10 + 50) / 200,
        }
    )


def test_a_wait_before_a_preemption_stays_queueing_however_long_the_one_behind_it_is():
    _, workload = turns_of(growing(1))
    request = served(workload.turns[0], queued_since=0)
    request.leave_queue(10)
    request.start_over(20)
    request.blocked_since = 20
    request.leave_queue(50)
    assert request.waits(90) == (10, 30, 0)


def test_a_load_that_is_given_up_counts_up_to_then():
    _, workload = turns_of(growing(1))
    request = served(workload.turns[0], ready_at=100, loading_fs=100)
    assert request.waits(60) == (0, 0, 60)
    request.start_over(60)
    request.leave_queue(80)
    assert request.waits(200) == (20, 0, 60)


def test_all_gpu_time_is_accounted_for_idle_and_dead_included():
    trace, workload = turns_of(growing(1))
    outcome = outcome_of(workload, [served(workload.turns[0])], end_us=10_000_000)
    outcome.replicas[0].busy.hbm = 3 * FS_PER_S
    outcome.replicas[1].busy.links = FS_PER_S
    found = measure.gpu_seconds(scene_of(trace, workload), outcome)
    assert found == {"HBM": 6, "FLOPs": 0, "links": 2, "host": 0, "idle": 4 * 10 - 8}


def test_what_nobody_answered_takes_waiting_time_and_gives_no_tokens():
    _, workload = turns_of(growing(2, out=8))
    requests = [
        served(workload.turns[0], 0, first_us=1_000_000, finished_us=3_000_000),
        served(workload.turns[1], 4_000_000, found=None),
    ]
    outcome = outcome_of(workload, requests, end_us=5_000_000)
    assert measure.waited_tokens_per_s(outcome) == 8 / (3 + 1)


# Rows ------------------------------------------------------------------------------------------


def test_turn_rows_leave_subagents_out_and_count_from_one():
    _, workload = turns_of(session(request(0, [1]), subagent(1, request(0, [9])), request(5, [1, 2])))
    requests = [served(turn, 10, first_us=60, finished_us=90, replica=1) for turn in workload.turns]
    rows = measure.turn_rows(workload, outcome_of(workload, requests))
    assert [(row.session, row.turn, row.replica, row.ttft_us) for row in rows] == [
        (1, 1, 1, 50),
        (1, 2, 1, 50),
    ]


@pytest.mark.parametrize(("sessions", "most"), [(1, 300), (4, 300), (6, 200), (12, 100), (256, 100)])
def test_each_of_the_first_sessions_shows_as_many_turns(sessions, most):
    assert measure.most_turns(sessions) == most


def test_turns_beyond_what_a_session_shows_have_no_row():
    _, workload = turns_of(growing(310, first=1, step=1))
    requests = [served(turn, 10, first_us=60, finished_us=90) for turn in workload.turns]
    rows = measure.turn_rows(workload, outcome_of(workload, requests))
    assert [row.turn for row in rows] == list(range(1, 301))


def test_load_rows_hold_every_uncached_token_once_and_name_every_replica_and_part():
    _, workload = turns_of(growing(3))
    requests = [
        served(turn, 40_000 * place, found=(place, 0, 0), replica=place % 2)
        for place, turn in enumerate(workload.turns)
    ]
    outcome = outcome_of(workload, requests, end_us=96_000)
    rows = measure.load_rows(workload, outcome)
    assert len(rows) == 48 * 2
    assert sum(row.uncached_tokens for row in rows) == sum(measure.uncached_by_replica(workload, outcome))
    assert [(row.time_s, row.replica) for row in rows if row.uncached_tokens] == [
        (0.0, 0),
        (0.04, 1),
        (0.08, 0),
    ]


def test_residency_is_in_shares_of_what_each_tier_holds():
    trace, workload = turns_of(growing(1))
    sample = Sample(2_000_000, held_blocks=(10, 30), cached_blocks=(20, 0), host_blocks=(0, 0), pool_blocks=0)
    outcome = outcome_of(workload, [], samples=[sample])
    (row,) = measure.residency_rows(scene_of(trace, workload), outcome)
    assert (row.time_s, row.held_share, row.cached_share) == (2.0, 40 / 80, 20 / 80)
    assert (row.host_share, row.pool_share) == (0, 0)


def test_moves_count_changes_of_replica_in_the_order_of_sending():
    _, workload = turns_of(growing(3), growing(2))
    replicas = [0, 1, 1, 0, 0]
    requests = [
        served(turn, 10 * turn.index, replica=replica)
        for turn, replica in zip(workload.turns, replicas, strict=True)
    ]
    assert measure.moves(outcome_of(workload, requests)) == (1, 2)


def test_the_watched_turn_is_the_last_where_there_are_fewer_and_zero_where_it_was_never_admitted():
    trace, workload = turns_of(growing(2), growing(3))
    requests = [served(turn, found=(turn.index, 0, 0)) for turn in workload.turns[:-1]]
    outcome = outcome_of(workload, requests)
    found = measure.watched(scene_of(trace, workload, sessions=2, watched_session=1), outcome)
    assert (found["watched_input_tokens"], found["watched_cached_tokens"]) == (20, BLOCK)
    found = measure.watched(scene_of(trace, workload, sessions=2, watched_session=2), outcome)
    assert (found["watched_input_tokens"], found["watched_cached_tokens"]) == (28, 0)
