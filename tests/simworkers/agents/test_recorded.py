"""What counts tell of a recorded trace: the same before a run is queued and once the trace is read."""

import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from simworkers import inputs
from simworkers.agents.params import AgentParams
from simworkers.agents.recorded import MOST_REQUESTS, counts_of_all, expected_s_of, fault_of_summary
from simworkers.agents.scene import build_scene
from simworkers.agents.traffic.traces import read_trace
from simworkers.jobs import InvalidParameter
from simworkers.trace_summary import SessionSize, TraceSummary, summarise
from tests.simworkers.golden import shared_file

SUMMARY = TraceSummary(
    sessions=30,
    requests=300,
    subagent_requests=0,
    block_references=3000,
    block_sizes=[64],
    input_tokens=192_000,
    output_tokens=3000,
    longest_session_s=60.0,
    subagent_times="marker",
    lines_refused=0,
    repairs=0,
    notes=[],
)
ROWS = {"has_sessions": False, "sessions": 1, "block_sizes": [512]}
SLOW = {"pipeline_parallel": 2, "tensor_parallel": 1, "token_budget": 64}


def fault(counted, **asked):
    params = AgentParams(trace="0" * 64, **asked)
    return fault_of_summary(params, SUMMARY.model_copy(update=counted))


@pytest.mark.parametrize("counted", [{}, ROWS])
def test_a_trace_of_usual_counts_is_played(counted):
    assert fault(counted, sessions=30) is None


@pytest.mark.parametrize(
    ("counted", "asked", "field", "told"),
    [
        ({"block_sizes": [16, 64]}, {"sessions": 30}, "trace", "16 and 64 tokens"),
        ({"block_sizes": [*range(2, 22)]}, {"sessions": 30}, "trace", "blocks of 2, 3, 4 and more tokens"),
        (ROWS, {"search_load": True}, "search_load", "no load to search"),
        (ROWS, {"scored_as": "throughput"}, "scored_as", "no load to search"),
        (ROWS | {"requests": MOST_REQUESTS + 1}, {}, "trace", "30,001 requests"),
        ({"requests": MOST_REQUESTS + 1}, {"sessions": 30}, "sessions", "30,001 requests"),
        ({"input_tokens": 10**9}, SLOW | {"sessions": 30}, "sessions", "at most 120"),
        (ROWS | {"input_tokens": 10**9}, SLOW, "trace", "at most 120"),
    ],
)
def test_what_no_run_could_play_names_the_field_that_mends_it(counted, asked, field, told):
    found = fault(counted, **asked)
    assert found and found[0] == field and told in found[1]


def test_a_load_search_over_sessions_is_no_fault():
    assert fault({}, sessions=30, search_load=True) is None


@pytest.mark.parametrize("counted", [{"requests": MOST_REQUESTS + 1}, {"block_sizes": [16, 64]}])
def test_what_fewer_sessions_hold_shows_when_a_trace_is_read_whose_sessions_were_not_counted(counted):
    assert fault(counted, sessions=29) is None


def sized(requests, block_size=64):
    return SessionSize(requests=requests, input_tokens=1000, output_tokens=10, block_size=block_size)


@pytest.mark.parametrize(
    ("sizes", "asked", "field"),
    [
        ([sized(10), sized(MOST_REQUESTS)], {"sessions": 2}, "sessions"),
        ([sized(10), sized(10, 16)], {"sessions": 2}, "trace"),
        ([sized(10), sized(10, 16), sized(MOST_REQUESTS)], {"sessions": 1}, None),
    ],
)
def test_of_fewer_sessions_than_a_trace_has_those_count_that_are_played(sizes, asked, field):
    found = fault({"first_sessions": sizes}, **asked)
    assert (found and found[0]) == field


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("agent_sessions", SLOW | {"sessions": 30}),
        ("agent_sessions", SLOW | {"sessions": 29, "search_load": True}),
        ("requests_512", {"search_load": True}),
    ],
)
def test_a_summary_tells_what_reading_would_tell(name, asked):
    path = shared_file(f"traces/{name}.jsonl.gz")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    params = AgentParams(trace=digest, **asked)
    with path.open("rb") as file:
        found = fault_of_summary(params, summarise(read_trace(file)))
    with inputs.given({digest: path}), pytest.raises(InvalidParameter) as refused:
        build_scene(params, 1)
    assert found and str(refused.value) == ": ".join(found)


# What a run takes: seconds as they were measured on one core, none of them in a test.

FIXTURE = Path(__file__).parents[3] / "fixtures/traces/agent-sessions.jsonl.gz"
CROWDED: dict[str, Any] = {"sessions_at_once": 15, "start_gap_ms": 0, "replicas": 1, "kv_blocks": 1_000_000}


def subagents(sessions, beside, output_tokens):
    """What so many sessions hold, of subagents side by side whose prompts have one token."""
    asked = [{"t": 0, "in": 1, "out": output_tokens, "hash_ids": [0]}]
    agents = [{"type": "subagent", "t": 0, "requests": asked} for _ in range(beside)]
    line = json.dumps({"block_size": 1, "requests": agents}).encode() + b"\n"
    return summarise(read_trace(io.BytesIO(line * sessions)))


def expected(summary, **asked):
    params = AgentParams(trace="0" * 64, **{"compare_policies": False, "sessions": summary.sessions} | asked)
    return expected_s_of(params, counts_of_all(summary))


@pytest.mark.parametrize(
    ("output_tokens", "asked", "taken_s"),
    [
        (20_000, {"max_requests": 1024}, 7.0),
        (20_000, {"max_requests": 512}, 7.2),
        (20_000, {"max_requests": 64, "kv_blocks": 300_000}, 1.5),
        (20_000, {"max_requests": 1024, "kv_blocks": 25_000}, 2.8),
        (200, {"max_requests": 1024, "kv_blocks": 8000}, 0.9),
    ],
)
def test_many_subagents_with_long_answers_are_expected_to_take_more_than_they_took(
    output_tokens, asked, taken_s
):
    seconds = expected(subagents(15, 100, output_tokens), **CROWDED | asked)
    assert taken_s < seconds < 25 * taken_s


def test_many_subagents_with_long_answers_are_not_compared():
    summary = subagents(15, 100, 20_000)
    params = AgentParams(trace="0" * 64, sessions=15, max_requests=1024, **CROWDED)
    found = fault_of_summary(params, summary)
    assert found and found[0] == "sessions" and "at most 120" in found[1]


def test_usual_sessions_are_compared_and_expected_to_take_some_times_what_they_took():
    summary = summarise(read_trace(io.BytesIO(gzip.decompress(FIXTURE.read_bytes()))))
    assert 2.9 < expected(summary, compare_policies=True) < 7 * 2.9


def test_seats_that_nobody_can_take_cost_nothing():
    summary = subagents(2, 10, 20_000)
    few, many = (expected(summary, max_requests=most) for most in (20, 1024))
    assert few == many > expected(summary, max_requests=10)


def test_requests_without_an_answer_do_not_hide_those_with_long_ones():
    one = {"t": 0, "in": 1, "out": 20_000, "hash_ids": [0]}
    silent = {"t": 1, "in": 200_000, "out": 0, "hash_ids": [*range(200_000)]}
    short, long = (
        summarise(read_trace(io.BytesIO(json.dumps({"block_size": 1, "requests": rows}).encode() + b"\n")))
        for rows in ([one], [one, silent])
    )
    assert expected(long) > expected(short)
    assert long.first_sessions[0].doublings == short.first_sessions[0].doublings


def test_what_runs_side_by_side_is_told_by_where_subagents_stand():
    one = {"t": 0, "in": 1, "out": 1, "hash_ids": [0]}
    pair = {
        "type": "subagent",
        "t": 0,
        "requests": [one, {"type": "subagent", "t": 0, "requests": [one]}, one],
    }
    row = {"block_size": 1, "requests": [pair, one, pair, pair, pair | {"requests": []}, pair, one]}
    (session,) = read_trace(io.BytesIO(json.dumps(row).encode())).sessions
    assert session.side_by_side == 3


def test_the_time_that_reading_took_counts():
    assert fault({}, sessions=30) is None
    assert "at most 120" in fault({"read_s": 119.5}, sessions=30)[1]
