"""The fast replay against recorded results, and against a cache that is walked block by block."""

import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.agents.replay import prepare, replay, replay_blocks, replay_trace
from simworkers.agents.traces import Trace, read_trace
from tests.simworkers.golden import load_golden, shared_file

NAMES = ("hit_blocks", "hit_tokens", "input_tokens")


def trace_of(*sessions: dict[str, Any]) -> Trace:
    return read_trace(io.BytesIO("\n".join(map(json.dumps, sessions)).encode()))


def session(*prompts: tuple[float, list[int]], block_size: int = 4, **others: Any) -> dict[str, Any]:
    requests = [{"t": t, "in": len(ids) * block_size, "out": 1, "hash_ids": ids} for t, ids in prompts]
    return {"id": "s", "block_size": block_size, "requests": requests} | others


def naive_hits(trace: Trace, capacity: int | None) -> list[int]:
    """Written from the definition: one list, the most recent block first."""
    recent: list[tuple[int, int]] = []
    hits = []
    for one, request in trace.in_order():
        keys = [(one.space, int(block)) for block in request.blocks]
        hit = 0
        while hit < len(keys) and keys[hit] in recent:
            hit += 1
        hits.append(hit)
        distinct = list(dict.fromkeys(keys))
        recent = distinct + [key for key in recent if key not in distinct]
        del recent[len(recent) if capacity is None else capacity :]
    return hits


prompts = st.lists(
    st.one_of(
        st.integers(0, 14).map(lambda length: list(range(length))),  # one growing context
        st.tuples(st.integers(0, 8), st.integers(0, 8)).map(
            lambda cut: [*range(cut[0]), *range(20, 20 + cut[1])]
        ),
        st.tuples(st.integers(0, 9), st.integers(0, 9)).map(
            lambda cut: [*range(cut[0]), *range(5, 5 + cut[1])]
        ),
        st.lists(st.integers(0, 6), max_size=8),  # repeats and shuffles
    ),
    min_size=1,
    max_size=8,
)
traces = st.lists(
    st.tuples(
        prompts, st.lists(st.integers(0, 5), min_size=8, max_size=8), st.sampled_from(["local", "global"])
    ),
    min_size=1,
    max_size=3,
).map(
    lambda sessions: trace_of(
        *(session(*zip(times, ids, strict=False), hash_id_scope=scope) for ids, times, scope in sessions)
    )
)


@settings(max_examples=400, deadline=None)
@given(traces, st.one_of(st.none(), st.integers(1, 30)))
def test_every_request_hits_what_it_hits_block_by_block(trace, capacity):
    expected = naive_hits(trace, capacity)
    assert list(replay(prepare(trace), capacity).per_request) == expected
    assert list(replay_blocks(trace, capacity).per_request) == expected


def recorded_trace(name: str) -> Trace:
    with shared_file(f"traces/{name}").open("rb") as file:
        return read_trace(file)


def test_the_recorded_sessions_give_the_recorded_hits_at_every_capacity():
    prepared = prepare(recorded_trace("agent_sessions.jsonl.gz"))
    for result in load_golden("lru_replay.json")["results"]:
        hits = replay(prepared, result["capacity_blocks"])
        assert {name: getattr(hits, name) for name in NAMES} == {name: result[name] for name in NAMES}


def test_made_up_cases_with_gaps_repeats_and_branches_give_the_recorded_hits():
    for case in load_golden("lru_cases.json")["cases"]:
        trace = trace_of(*case["sessions"])
        for result in case["results"]:
            hits = replay(prepare(trace), result["capacity_blocks"])
            assert {name: getattr(hits, name) for name in NAMES} == {name: result[name] for name in NAMES}


def test_requests_without_sessions_are_replayed_as_one():
    trace = recorded_trace("requests_512.jsonl.gz")
    assert len(trace.sessions) == 1
    assert len(trace.sessions[0].requests) == 2000
    for capacity in (None, 5_000):
        assert replay_trace(trace, capacity) == replay_blocks(trace, capacity)


def test_hit_tokens_never_exceed_the_prompt():
    partly = {"t": 1.0, "in": 6, "out": 1, "hash_ids": [0, 1]}
    trace = trace_of(session((0.0, [0, 1])) | {"requests": [*session((0.0, [0, 1]))["requests"], partly]})
    assert (replay_trace(trace, None).hit_blocks, replay_trace(trace, None).hit_tokens) == (2, 6)


def test_sessions_with_ids_of_their_own_share_nothing():
    one = session((0.0, [1, 2]))
    assert replay_trace(trace_of(one, one), None).hit_blocks == 0


def test_sessions_with_ids_of_the_whole_file_share_blocks():
    one = session((0.0, [1, 2]), hash_id_scope="global")
    assert replay_trace(trace_of(one, one), None).hit_blocks == 2


def test_a_capacity_below_one_is_refused():
    with pytest.raises(ValueError, match=r"^capacity_blocks: "):
        replay(prepare(trace_of(session((0.0, [1])))), 0)


def test_a_gzip_file_gives_what_the_plain_one_gives():
    text = json.dumps(session((0.0, [1, 2]), (1.0, [1, 2, 3]))).encode()
    packed = read_trace(io.BytesIO(gzip.compress(text)))
    assert replay_trace(packed, None) == replay_trace(read_trace(io.BytesIO(text)), None)
