"""What a run of the agent lab reports: the same twice, consistent with itself, and checked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simworkers.agents.compare import COMPARED, play
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import build_scene
from simworkers.agents.simulate import simulate
from simworkers.jobs import InvalidParameter
from tests.simworkers.agents.small_runs import TIGHT, params_of, report_of
from tests.simworkers.tasks import silent

ROOT = Path(__file__).parents[3]


# The same again --------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"compare_policies": True}, TIGHT, {"policy": "random"}])
def test_the_same_parameters_and_seed_report_the_same(changes):
    first, second = (simulate(params_of(**changes), 5, silent) for _ in range(2))
    assert first.model_dump(exclude={"provenance"}) == second.model_dump(exclude={"provenance"})


def test_another_seed_draws_other_sessions():
    assert report_of(1).metrics["input_tokens"] != report_of(2).metrics["input_tokens"]


def test_older_instruction_sets_report_the_same():
    """Nothing is a sum of floats before everything has happened, so the whole report is the same bit for bit."""
    code = (
        "import json; from simworkers.agents.params import AgentParams; "
        "from simworkers.agents.simulate import simulate; "
        f"params = AgentParams.model_validate(json.loads({json.dumps(TIGHT)!r})); "
        "print(simulate(params, 3, lambda done, total: None).model_dump_json(exclude={'provenance'}))"
    )
    older = os.environ | {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
    older |= {"NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=older, cwd=ROOT
    )
    report = simulate(AgentParams.model_validate(TIGHT), 3, silent)
    assert json.loads(done.stdout) == json.loads(report.model_dump_json(exclude={"provenance"}))


@pytest.mark.parametrize(
    "changes", [{}, {"compare_policies": True}, {"search_load": True}, {"compare_caps": True}]
)
def test_progress_rises_and_ends_at_its_total(changes):
    told: list[tuple[int, int]] = []
    simulate(params_of(**changes), 1, lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert {total for _, total in told} == {told[-1][0]}
    assert len(told) > 50


def test_progress_is_told_in_the_middle_of_a_comparison():
    """A play of many turns takes seconds; whoever watches hears that the run is alive."""
    told: list[int] = []
    report = simulate(
        params_of(sessions=8, turns_percent=50, compare_policies=True), 1, lambda done, _: told.append(done)
    )
    plays = len(COMPARED) * 5
    assert len(told) > 100 + plays + plays * report.metrics["requests"] // 100


# Consistency -----------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, TIGHT, {"replicas": 1}, {"incident": "fail", "incident_at_s": 30}])
def test_the_numbers_of_a_run_agree_with_one_another(changes):
    metrics = report_of(**changes).metrics
    cached = metrics["hbm_tokens"] + metrics["host_tokens"] + metrics["pool_tokens"]
    assert cached + metrics["uncached_tokens"] == metrics["input_tokens"]
    assert metrics["hit_rate"] == cached / metrics["input_tokens"] <= metrics["hit_rate_ceiling"]
    assert metrics["completed_requests"] == metrics["requests"]
    assert metrics["tokens_per_gpu_s"] == pytest.approx(
        metrics["output_tokens"] / metrics["window_s"] / metrics["gpus"]
    )
    assert sum(metrics["gpu_seconds"].values()) == pytest.approx(metrics["window_s"] * metrics["gpus"])
    assert metrics["cost_usd"] == pytest.approx(metrics["window_s"] * metrics["gpus"] / 3600 * 2.5)
    assert metrics["usd_per_million"] == pytest.approx(metrics["cost_usd"] / metrics["output_tokens"] * 1e6)
    shares = [value for name, value in metrics.items() if name.startswith("share_")]
    assert sum(shares) == pytest.approx(1)
    assert sum(row["uncached_tokens"] for row in metrics["loads"]) == metrics["uncached_tokens"]
    assert metrics["ttft_p50_us"] <= metrics["ttft_p90_us"] <= metrics["ttft_p99_us"]


def test_every_turn_of_the_first_sessions_has_a_row():
    metrics = report_of().metrics
    workload = build_scene(params_of(), 1).workload
    own = [turn for turn in workload.turns if turn.stream == workload.begins[turn.session][0]]
    assert len(metrics["turns"]) == len(own)
    for row, turn in zip(
        sorted(metrics["turns"], key=lambda row: (row["session"], row["turn"])),
        sorted(own, key=lambda turn: (turn.session, turn.index)),
        strict=True,
    ):
        parts = (row[f"{name}_tokens"] for name in ("hbm", "host", "pool", "new"))
        assert sum(parts) == turn.input_tokens
        assert row["output_tokens"] == turn.output_tokens


def test_the_runs_own_policy_stands_in_the_comparison_as_the_run_itself():
    metrics = report_of(compare_policies=True, policy="weighted").metrics
    (own,) = (row for row in metrics["policies"] if row["policy"] == "weighted")
    for name in own.keys() - {"policy"}:
        assert own[name] == metrics[name], name
    assert {row["policy"] for row in metrics["policies"]} == {*COMPARED, "weighted"}


def test_each_curve_has_each_load_once_and_no_load_above_the_sessions():
    metrics = report_of(compare_policies=True).metrics
    points = [(row["policy"], row["sessions_at_once"]) for row in metrics["curves"]]
    assert len(points) == len(set(points)) and max(load for _, load in points) == 4


def test_points_of_curves_tell_which_share_of_the_requests_completed():
    metrics = report_of(compare_policies=True, kv_blocks=300).metrics
    assert metrics["refused_requests"] > 0
    (own,) = (
        row
        for row in metrics["curves"]
        if (row["policy"], row["sessions_at_once"]) == ("round_robin", metrics["sessions"])
    )
    assert own["completed_share"] == metrics["completed_share"] < 1


def test_nothing_is_compared_or_searched_where_nobody_asks():
    metrics = report_of().metrics
    assert metrics["policies"] == metrics["curves"] == []
    assert metrics["search_sessions"] == 0


def test_the_searched_load_keeps_the_floor_and_one_more_does_not():
    params = params_of(
        sessions=12, turns_percent=10, replicas=1, search_load=True, floor_tokens_per_s=45.0, think_percent=0
    )
    metrics = simulate(params, 1, silent).metrics
    found, scene = metrics["search_sessions"], build_scene(params, 1)
    assert 1 <= found < 12
    rates = [play(scene, params.policy, load)[1] for load in (found, found + 1)]
    assert rates[0].interactivity_p10 >= 45 > rates[1].interactivity_p10
    assert metrics["search_tokens_per_gpu_s"] == rates[0].tokens_per_gpu_s


def test_a_bound_that_no_replica_can_have_is_refused_with_its_field():
    """Sixteen GPUs in stages hold the model; the bound knows no stages, and eight do not."""
    params = AgentParams(
        model="deepseek-v3",
        gpu="h100",
        replicas=1,
        tensor_parallel=8,
        pipeline_parallel=2,
        sessions=2,
        turns_percent=2,
        scored_as="throughput",
        compare_policies=False,
    )
    with pytest.raises(InvalidParameter, match=r"^scored_as: "):
        simulate(params, 1, silent)
