"""Runs of the agent lab on recorded traces."""

import hashlib
import json
import random

import pytest

from simworkers import inputs
from simworkers.agents.measure import ceiling
from simworkers.agents.scene import build_scene
from simworkers.agents.serving.workload import one_after_another
from simworkers.agents.simulate import simulate
from simworkers.agents.traffic.traces import read_trace
from simworkers.jobs import InvalidParameter
from tests.simworkers.agents.small_runs import params_of, report_of, states
from tests.simworkers.golden import load_golden, shared_file
from tests.simworkers.tasks import silent


@pytest.fixture(scope="module")
def recorded():
    path = shared_file("traces/agent_sessions.jsonl.gz")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with inputs.given({digest: path}):
        yield digest


def test_a_recorded_trace_is_played_and_keeps_every_invariant(recorded):
    report = report_of(trace=recorded, sessions=256, replicas=4)
    assert (report.metrics["sessions"], report.metrics["requests"]) == (30, 1179)
    assert set(states(report).values()) == {"held"}
    assert report.metrics["completed_share"] == 1


def test_one_endless_replica_finds_what_the_recorded_replay_found(recorded):
    """The published replay counts otherwise than a hit rate does; under its flags the ceiling is its endless rate."""
    endless = load_golden("lru_replay.json")["results"][0]
    assert endless["capacity_blocks"] is None
    params = params_of(
        trace=recorded, sessions=256, full_hit_recompute=False, cache_outputs=False, partial_blocks=True
    )
    scene = build_scene(params, 1)
    found = ceiling(one_after_another(scene.workload, scene.trace))
    assert found == endless["hit_tokens"] / endless["input_tokens"]


def test_fewer_sessions_are_the_first_of_a_recorded_trace(recorded):
    with inputs.open_input(recorded) as file:
        whole = read_trace(file)
    metrics = report_of(trace=recorded, sessions=3).metrics
    assert metrics["requests"] == sum(len(session.requests) for session in whole.sessions[:3])


def test_a_recorded_trace_that_would_take_too_long_is_refused_with_its_requests(recorded):
    params = params_of(trace=recorded, sessions=30, pipeline_parallel=2, token_budget=64)
    with pytest.raises(
        InvalidParameter, match=r"^sessions: with its 1,179 requests .* one core, at most 120"
    ):
        simulate(params.model_copy(update={"compare_policies": True}), 1, silent)


def parted(folder, sessions, turns):
    """Hash of a trace whose prompts are each a random beginning of one context, and the file by it."""
    draw = random.Random(1)
    lengths = [[draw.randint(200, 1500) for _ in range(turns)] for _ in range(sessions)]
    lines = [
        {
            "id": f"session {number}",
            "block_size": 1,
            "requests": [
                {"t": turn, "in": length, "out": 1, "hash_ids": list(range(length))}
                for turn, length in enumerate(row)
            ],
        }
        for number, row in enumerate(lengths)
    ]
    path = folder / "parted.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return digest, {digest: path}


def test_a_trace_whose_contexts_part_in_many_places_is_refused_with_its_runs(tmp_path, monkeypatch):
    digest, files = parted(tmp_path, sessions=2, turns=100)
    params = params_of(trace=digest, sessions=2, host_gb=1, compare_tiers=True, memory_budget_usd=100.0)
    monkeypatch.setattr("simworkers.agents.recorded.MAX_WORK_S", 1)
    with (
        inputs.given(files),
        pytest.raises(InvalidParameter, match=r"^sessions: .* 200 requests and [\d,]+ runs of"),
    ):
        build_scene(params, 1)


def test_a_load_search_counts_the_sessions_that_a_trace_has(tmp_path):
    digest, files = parted(tmp_path, sessions=1, turns=1)
    with inputs.given(files):
        assert build_scene(params_of(trace=digest, sessions=256, search_load=True), 1)


@pytest.fixture(scope="module")
def rows():
    path = shared_file("traces/requests_512.jsonl.gz")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with inputs.given({digest: path}):
        yield digest


def test_rows_without_sessions_come_when_they_were_recorded(rows):
    metrics = report_of(trace=rows).metrics
    assert (metrics["sessions"], metrics["requests"]) == (2000, 2000)
    assert 669 <= metrics["window_s"] < 1500  # the last came after 669 s; one by one they would take hours


def test_rows_without_sessions_have_no_price_of_a_session(rows):
    metrics = report_of(trace=rows).metrics
    assert metrics["cost_usd"] > 0 and metrics["usd_per_session"] == 0
    assert metrics["sessions"] == metrics["requests"]


def test_where_nothing_names_a_session_only_the_prompt_tells_who_has_its_kv(rows):
    found = {
        policy: report_of(trace=rows, policy=policy).metrics["hit_rate"]
        for policy in ("sticky", "longest_prefix")
    }
    assert found["longest_prefix"] > found["sticky"]


@pytest.mark.parametrize("asked", [{"search_load": True}, {"scored_as": "throughput"}])
def test_a_load_search_over_rows_that_come_when_they_come_is_refused(rows, asked):
    with pytest.raises(InvalidParameter, match=f"^{next(iter(asked))}: "):
        simulate(params_of(trace=rows, **asked), 1, silent)


def test_rows_without_sessions_that_are_too_many_are_the_traces_fault(rows, monkeypatch):
    monkeypatch.setattr("simworkers.agents.recorded.MOST_REQUESTS", 1999)
    with pytest.raises(InvalidParameter, match=r"^trace: 2,000 requests, at most 1,999 are played"):
        simulate(params_of(trace=rows), 1, silent)


def test_a_trace_that_nobody_handed_in_is_refused_at_its_field():
    with pytest.raises(InvalidParameter, match=r"^trace: no file with the hash"):
        simulate(params_of(trace="0" * 64), 1, silent)


def test_a_file_that_is_no_trace_is_refused_at_its_field(tmp_path):
    path = tmp_path / "trace"
    path.write_text("nothing of the kind")
    with inputs.given({"1" * 64: path}), pytest.raises(InvalidParameter, match=r"^trace: "):
        simulate(params_of(trace="1" * 64), 1, silent)
