"""`best-throughput` on the trace that a lab's author chose, and what becomes of it where that one does not serve."""

import functools
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from simworkers import inputs
from simworkers.agents.params import AgentParams
from simworkers.agents.recorded import counts_of, fault_of
from simworkers.agents.simulate import simulate
from simworkers.agents.tasks import throughput_task
from simworkers.agents.tasks.anchors import Anchors, find_anchors, searched_rate, splits
from simworkers.agents.tasks.recorded_load import RecordedLoad, default_load
from simworkers.agents.traffic.traces import read_trace
from simworkers.jobs import PreparedInstance
from simworkers.trace_summary import size_of
from tests.simworkers.agents.tasks import SEEDS, instance, silent
from tests.simworkers.golden import shared_file

KIND = "best-throughput"


def as_default(path):
    """Files of a lab whose author chose this trace."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {digest: path, inputs.WORD_DEFAULT: path}


@pytest.fixture
def recorded():
    """The hash of recorded sessions, chosen as the default."""
    files = as_default(shared_file("traces/agent_sessions.jsonl.gz"))
    with inputs.given(files):
        yield next(iter(files))


@dataclass(frozen=True)
class Played:
    """An instance, and how far each way of setting it goes from the baseline to the bound."""

    prepared: PreparedInstance
    anchors: Anchors
    expert: dict[str, Any]
    reached: dict[str, float]


@functools.cache
def played(seed):
    prepared = throughput_task.prepare(seed, silent)
    anchors = find_anchors(AgentParams.model_validate(prepared.params), prepared.seed, lambda: None)
    choices = {who: one.params for who, one in throughput_task.references(prepared).items()}
    choices |= {f"lesson {number}": choice for number, choice in enumerate(throughput_task.lessons())}

    def reached(choice):
        params = AgentParams.model_validate(prepared.params | choice)
        rate = searched_rate(params, prepared.seed, params.policy)
        return (rate - anchors.low) / (anchors.high - anchors.low)

    found = {who: reached(choice) for who, choice in choices.items()}
    return Played(prepared, anchors, choices["expert"], found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_an_instance_names_the_default_trace_by_its_hash_and_shows_it(recorded, seed):
    prepared = played(seed).prepared
    assert prepared.params["trace"] == prepared.visible["trace"] == recorded


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(recorded, seed):
    reached = played(seed).reached
    assert reached["naive"] == 0
    assert reached["misconception"] <= 0.2
    assert reached["expert"] >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_lesson_alone_earns_less_than_a_band(recorded, seed):
    assert max(value for who, value in played(seed).reached.items() if who.startswith("lesson")) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_baseline_and_bound_lie_a_fifth_apart(recorded, seed):
    anchors = played(seed).anchors
    assert anchors.high >= 1.2 * anchors.low > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_all_sessions_at_once_break_the_floor_however_they_are_served(recorded, seed):
    """So the floor ends every search, and not how many sessions the trace has."""
    found = played(seed)
    params = AgentParams.model_validate(found.prepared.params)
    served = [params, params.model_copy(update=found.expert)]
    assert not any(throughput_task.serves_all(one, found.prepared.seed) for one in served)
    for split in splits(params):
        endless = params.model_copy(update={**split, "policy": "sticky"})
        assert not throughput_task.serves_all(endless, found.prepared.seed, is_endless=True)


@pytest.mark.slow
def test_no_size_of_a_replica_is_best_in_nearly_all(recorded):
    best = Counter(played(seed).expert["tensor_parallel"] for seed in SEEDS)
    assert max(best.values()) <= 0.6 * len(SEEDS)


@pytest.mark.slow
def test_what_a_learner_sets_moves_neither_baseline_nor_bound(recorded):
    found = played(0)
    params = AgentParams.model_validate(found.prepared.params | found.expert)
    metrics = simulate(params, found.prepared.seed, silent).metrics
    assert (metrics["anchor_low"], metrics["anchor_high"]) == (found.anchors.low, found.anchors.high)


@pytest.mark.slow
def test_attempts_differ_though_the_trace_is_the_same(recorded):
    drawn = {repr(sorted(played(seed).prepared.params.items())) for seed in SEEDS}
    assert len(drawn) == len(SEEDS)


# Where no trace serves ----------------------------------------------------------------------------


@pytest.fixture
def synthetic():
    """What is drawn where no trace is given, as here."""
    return instance(KIND, 1)


def test_without_a_default_the_sessions_are_drawn_and_shown_as_such(synthetic):
    assert default_load() is None
    assert synthetic.params["trace"] == synthetic.visible["trace"] == "synthetic"


def test_rows_without_sessions_have_no_load_to_search_so_the_sessions_are_drawn(tmp_path, synthetic):
    rows = [
        {
            "timestamp": 100 * number,
            "input_length": 1000,
            "output_length": 10,
            "hash_ids": [number, number + 1],
        }
        for number in range(20)
    ]
    path = written(tmp_path, rows)
    with inputs.given(as_default(path)):
        assert default_load() is None
        assert throughput_task.prepare(1, silent) == synthetic


def session(block_size=64, tokens=640, number=0):
    turns = [
        {"t": 5.0 * turn, "in": tokens, "out": 20, "hash_ids": list(range(tokens // block_size))}
        for turn in range(3)
    ]
    return {"id": f"s{number}", "block_size": block_size, "requests": turns}


def written(folder, lines):
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def load_of(folder, sessions):
    with inputs.given(as_default(written(folder, sessions))):
        return default_load()


def test_sessions_whose_blocks_differ_in_size_are_played_as_far_as_they_are_alike(tmp_path):
    found = load_of(tmp_path, [session()] * 10 + [session(32)] * 10)
    assert found and found.sessions == 10


@pytest.mark.parametrize(
    "sessions",
    [
        pytest.param([session()] * 7, id="fewer than eight sessions, over which no load is searched"),
        pytest.param([session(64), session(32)] * 10, id="blocks of two sizes, which no cache holds"),
        pytest.param([{**session(), "requests": session()["requests"] * 2000}] * 8, id="too long to draw"),
        pytest.param([{"requests": 1}], id="no trace"),
    ],
)
def test_a_trace_that_cannot_be_played_is_no_load(tmp_path, sessions):
    assert load_of(tmp_path, sessions) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "sessions",
    [
        pytest.param([session()] * 8, id="short sessions, which no division serves better"),
        pytest.param([session(64, 64 * 200_000)] * 8, id="a prompt that no replica of today holds"),
    ],
)
def test_a_trace_that_tells_nobody_apart_leaves_the_sessions_to_be_drawn(tmp_path, sessions, synthetic):
    with inputs.given(as_default(written(tmp_path, sessions))):
        assert default_load() is not None
        assert throughput_task.prepare(1, silent) == synthetic


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [1, 2, 4, 8])
def test_no_division_without_a_pipeline_takes_too_long_for_a_graded_run(recorded, gpus):
    prepared = played(0).prepared
    divided = prepared.params | {"tensor_parallel": gpus, "replicas": 16 // gpus}
    assert fault_of(AgentParams.model_validate(divided), counted(prepared)) is None


def counted(prepared):
    with inputs.open_input(prepared.params["trace"]) as file:
        sessions = read_trace(file).sessions[: prepared.params["sessions"]]
    return counts_of([size_of(one) for one in sessions])


def test_a_replica_fits_if_the_longest_request_has_room_beside_the_weights():
    load = RecordedLoad("", 1, 299_000)  # 2 × 80 GB × 90% − 65.6 GB of weights, at 256 KiB a token: 299,072
    assert load.fits("qwen3-32b", "h100", 2)
    assert not RecordedLoad("", 1, 299_100).fits("qwen3-32b", "h100", 2)
    assert not load.fits("llama-3.1-70b", "h100", 1)  # not even its weights
