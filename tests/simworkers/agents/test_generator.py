"""Generated sessions: the published figures come out, every seed gives one trace, and files carry it."""

import functools
import hashlib
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simworkers.agents.traffic.generator import GeneratorSpec, generate, main
from simworkers.agents.traffic.quantiles import STEPS, Quantiles
from simworkers.agents.traffic.replay import prepare, replay
from simworkers.agents.traffic.trace_writing import write_trace
from simworkers.agents.traffic.traces import Trace, read_trace
from simworkers.rng import Stream
from tests.simworkers.agents.same import assert_same_sessions

SEEDS = (0, 1, 2)
FIXTURE = Path(__file__).parents[3] / "fixtures/traces/agent-sessions.jsonl.gz"
FIXTURE_SPEC = GeneratorSpec(num_sessions=24, context_scale_percent=5)


@functools.cache
def generated(seed: int, num_sessions: int = 300) -> Trace:
    return generate(GeneratorSpec(num_sessions=num_sessions), seed)


def requests_of(trace):
    return [request for session in trace.sessions for request in session.requests]


def digest(trace):
    found = hashlib.sha256()
    for request in requests_of(trace):
        counts = (
            request.at_us,
            request.input_tokens,
            request.output_tokens,
            request.think_us,
            request.service_us,
        )
        found.update(repr((*counts, request.place, request.agent)).encode())
        found.update(request.blocks.astype("<i8").tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_published_figures_come_out(seed):
    trace = generated(seed)
    requests = requests_of(trace)
    turns = [sum(request.agent is None for request in session.requests) for session in trace.sessions]
    with_subagents = [any(request.agent for request in session.requests) for session in trace.sessions]
    assert np.median(turns) == pytest.approx(43, rel=0.05)
    assert np.mean([request.input_tokens for request in requests]) == pytest.approx(142_000, rel=0.05)
    assert np.mean([request.output_tokens for request in requests]) == pytest.approx(444, rel=0.05)
    assert np.mean(with_subagents) == pytest.approx(0.44, rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_endless_cache_hits_and_new_tokens_are_heavy_tailed_as_published(seed):
    trace = generated(seed)
    hits = replay(prepare(trace), None)
    assert hits.hit_tokens / hits.input_tokens >= 0.96
    inputs = [request.input_tokens for _, request in trace.in_order()]
    new_tokens = np.array(inputs) - 64 * np.array(hits.per_request)
    assert np.median(new_tokens) == pytest.approx(727, rel=0.05)
    assert np.percentile(new_tokens, 99) > 100 * np.median(new_tokens)


def test_one_seed_gives_one_trace_on_every_machine():
    assert digest(generate(FIXTURE_SPEC, 7)) == "c4e60de29a157c03"


def test_another_seed_gives_another_trace():
    assert digest(generate(FIXTURE_SPEC, 7)) != digest(generate(FIXTURE_SPEC, 8))


@pytest.mark.parametrize(
    "spec",
    [
        GeneratorSpec(num_sessions=5, block_size=16, context_scale_percent=1),
        GeneratorSpec(num_sessions=5, block_size=1024, context_scale_percent=1, shared_prefix_tokens=50_000),
        GeneratorSpec(num_sessions=3, turns_percent=1, subagent_sessions_percent=100),
        GeneratorSpec(num_sessions=1, block_size=1, context_scale_percent=3, turns_percent=400),
    ],
)
def test_every_prompt_has_the_ids_of_its_blocks_and_places_count_the_file(spec):
    for session in generate(spec, 3).sessions:
        assert sorted(request.place for request in session.requests) == list(range(len(session.requests)))
        for request in session.requests:
            fewest = request.input_tokens // spec.block_size
            assert fewest <= len(request.blocks) <= -(-request.input_tokens // spec.block_size)
            assert request.output_tokens >= 1


def test_contexts_that_only_grow_are_views_of_one_array():
    trace = generated(0)
    arrays = {id(request.blocks.base): request.blocks.base.nbytes for request in requests_of(trace)}
    references = sum(len(request.blocks) for request in requests_of(trace))
    assert sum(arrays.values()) < 0.1 * 8 * references


def ended_us_of(request):
    return request.at_us + request.service_us


def test_a_parent_waits_until_all_its_subagents_have_ended():
    for session in generated(0).sessions:
        ended_us = 0
        for request in sorted(session.requests, key=lambda request: request.place):
            if request.agent is None:
                assert request.at_us == ended_us + (request.think_us or 0)
            ended_us = max(ended_us, ended_us_of(request))


def test_subagents_start_when_their_parent_has_answered_and_run_beside_one_another():
    beside = 0
    for session in generated(0).sessions:
        ended_us, running = 0, 0
        for request in sorted(session.requests, key=lambda request: request.place):
            if request.agent is None:
                ended_us, running = ended_us_of(request), 0
            elif request.think_us == 0 and request.at_us == ended_us:
                running += 1
                beside = max(beside, running)
    assert beside > 1


def test_sessions_share_the_first_blocks_where_a_system_prompt_is_shared():
    trace = generate(GeneratorSpec(num_sessions=3, shared_prefix_tokens=6400, context_scale_percent=50), 0)
    starts = {tuple(request.blocks[:50].tolist()) for request in requests_of(trace)}
    assert len(starts) == 1
    later = [set(session.requests[0].blocks[50:].tolist()) for session in trace.sessions]
    assert not later[0] & later[1]
    assert {session.space for session in trace.sessions} == {-1}


def test_scaled_down_contexts_are_a_percentage_of_the_full_ones():
    full, small = (
        np.mean(
            [r.input_tokens for r in requests_of(generate(GeneratorSpec(context_scale_percent=percent), 0))]
        )
        for percent in (100, 5)
    )
    assert small == pytest.approx(full * 0.05, rel=0.02)


@pytest.mark.parametrize("name", sorted(GeneratorSpec.model_fields))
def test_a_spec_has_bounds_units_and_help(name):
    schema = GeneratorSpec.model_json_schema()["properties"][name]
    assert {"minimum", "maximum", "unit", "description"} <= schema.keys()


def test_a_written_trace_is_read_back_as_it_was():
    for spec in (
        FIXTURE_SPEC,
        GeneratorSpec(num_sessions=3, context_scale_percent=5, shared_prefix_tokens=9000),
    ):
        trace, file = generate(spec, 1), io.BytesIO()
        write_trace(trace, file)
        file.seek(0)
        assert_same_sessions(read_trace(file), trace)


def test_the_same_trace_gives_the_same_file():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        write_trace(generate(FIXTURE_SPEC, 1), file)
    assert files[0].getvalue() == files[1].getvalue()


def test_the_committed_trace_is_what_its_command_makes(tmp_path):
    command = "--num-sessions 24 --context-scale-percent 5 --seed 1 --out"
    made = tmp_path / "made.jsonl.gz"
    subprocess.run(
        [sys.executable, "-m", "simworkers.agents.traffic.generator", *command.split(), str(made)], check=True
    )
    assert FIXTURE.stat().st_size < 200 * 1024
    with FIXTURE.open("rb") as committed, made.open("rb") as new:
        assert_same_sessions(read_trace(new), read_trace(committed))


def test_a_bad_option_of_the_command_is_named():
    command = [
        sys.executable,
        "-m",
        "simworkers.agents.traffic.generator",
        "--num-sessions",
        "0",
        "--out",
        "unused",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "num_sessions: " in done.stderr


def test_quantiles_take_the_values_between_their_knots():
    table = Quantiles(((0, 10), (500, 20), (1000, 2020)))
    assert table.at(np.array([0, STEPS // 4, STEPS // 2, STEPS * 3 // 4, STEPS - 1])).tolist() == [
        10,
        15,
        20,
        1020,
        2019,
    ]


def test_spread_values_come_one_from_each_part():
    table = Quantiles(((0, 0), (1000, 100)))
    assert sorted((table.spread(Stream(1), 10) // 10).tolist()) == list(range(10))


@pytest.mark.parametrize(
    "knots", [((0, 1), (900, 2)), ((0, 5), (1000, 4)), ((0, 1), (1000, 2**40)), ((0, 1), (0, 2), (1000, 3))]
)
def test_a_table_that_is_no_distribution_is_refused(knots):
    with pytest.raises(ValueError, match=r"^knots: "):
        Quantiles(knots)


@pytest.mark.parametrize("name", ["none/sessions.jsonl.gz", "n" * 300, "."])
def test_a_file_that_cannot_be_written_is_one_line_and_exit_2(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["generator", "--num-sessions", "1", "--out", str(tmp_path / name)])
    with pytest.raises(SystemExit) as left:
        main()
    (line,) = capsys.readouterr().err.splitlines()
    assert left.value.code == 2 and line.startswith("out: cannot write ")
