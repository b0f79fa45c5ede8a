"""Recorded sessions on a whole site: handed in over REST, read by a worker, routed under three policies, graded."""

import os
import subprocess
import sys
from typing import Any

import pytest

from demo.api import Api
from tests.journeys.conftest import ROOT, Site
from tests.journeys.test_a_graded_run import finished, processes_can_be_watched
from tests.simworkers.golden import shared_file

__all__ = ["processes_can_be_watched"]  # a fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.usefixtures("processes_can_be_watched"),
]

POLICIES = ("round_robin", "longest_prefix", "sticky")
TASK = "agent-best-throughput"
PRACTICE_SEED = 7
BOARD = f"tasks/{TASK}/leaderboard/"
CHOOSE = """
from labs.models import Lab, LabTask, TraceFile
from labs.traces import offer_trace
offered = offer_trace(file=TraceFile.objects.get(digest="{digest}"), name="Recorded agents")
Lab.objects.filter(slug="agent-routing").update(default_trace=offered)
LabTask.objects.filter(activity__slug="agent-best-throughput").update(
    leaderboard=True, leaderboard_metric="search_tokens_per_gpu_s", leaderboard_better="more")
"""


@pytest.fixture(scope="module")
def learner(site: Site) -> Api:
    return site.newcomer()


@pytest.fixture(scope="module")
def digest(learner: Api) -> str:
    """Of the recorded sessions, as the site has checked them."""
    recorded = shared_file("traces/agent_sessions.jsonl.gz").read_bytes()
    zipped = {"Content-Type": "application/gzip"}
    sent = learner.checked(
        learner.http.post("traces/?name=recorded", content=recorded, headers=zipped)
    ).json()
    ready = list(learner.watch(sent["url"], lambda trace: trace["state"] != "checking"))[-1]
    assert ready["state"] == "ready", ready
    return str(ready["sha256"])


# Free runs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(learner: Api, digest: str) -> dict[str, dict[str, Any]]:
    """policy → its finished free run."""
    params = {
        "trace": digest,
        "sessions": 30,
        "sessions_at_once": 30,
        "kv_blocks": 8192,
        "compare_policies": False,
    }
    queued = {
        policy: learner.post("labs/agent-routing/runs/", {"params": params | {"policy": policy}})
        for policy in POLICIES
    }
    return {policy: finished(learner, run) for policy, run in queued.items()}


def test_recorded_sessions_handed_in_over_rest_are_computed_under_three_policies(runs):
    assert {policy: run["state"] for policy, run in runs.items()} == dict.fromkeys(POLICIES, "graded")
    assert {run["metrics"]["requests"] for run in runs.values()} == {1179}


def test_on_them_whoever_keeps_a_session_where_it_was_computes_less_than_a_round_robin(runs):
    uncached = {policy: run["metrics"]["uncached_tokens"] for policy, run in runs.items()}
    assert max(uncached["sticky"], uncached["longest_prefix"]) < uncached["round_robin"]


# A graded task on them ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chosen(site: Site, digest: str) -> str:
    """The lab's default trace, offered and chosen as an author does it in the admin; the task has a leaderboard."""
    environment = {**os.environ, "STAFFLOOP_VAR": str(site.folder)}
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "-c", CHOOSE.format(digest=digest)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return digest


def played(api: Api, policy: str, **opening: Any) -> dict[str, Any]:
    """The run of a new attempt: GPUs divided as the model wants it, sessions routed by this policy.

    A graded attempt's seed is hidden and another each time, and not every one makes an instance on the trace.
    """
    place = api.post(f"tasks/{TASK}/attempts/", opening)["url"]
    attempt = list(api.watch(place, lambda one: one["state"] != "preparing"))[-1]
    assert attempt["state"] == "open", attempt["error"]
    seen = attempt["visible"]
    gpus = 1 if seen["model"] == "qwen3-30b-a3b" else 8
    params = {"tensor_parallel": gpus, "replicas": seen["gpu_budget"] // gpus, "policy": policy}
    prediction = {"sessions_at_once": seen["sessions"], "tokens_per_gpu_s": 30.0}
    body = {"task_attempt": attempt["public_id"], "params": params, "prediction": prediction}
    return finished(api, api.post(attempt["runs_url"], body))


@pytest.fixture(scope="module")
def practised(site: Site, chosen: str) -> dict[str, dict[str, Any]]:
    """policy → the run of a practice attempt, all at the same instance."""
    api = site.newcomer()
    return {policy: played(api, policy, practice=True, seed=PRACTICE_SEED) for policy in POLICIES}


def test_an_instance_is_drawn_on_the_labs_default_trace(practised, digest):
    assert [run["params"]["trace"] for run in practised.values()] == [digest] * len(POLICIES)


def test_on_one_instance_whoever_keeps_a_session_where_it_was_earns_more_than_a_round_robin(practised):
    """Not by the longest prefix, which sees no load and breaks a high floor."""
    scores = {policy: float(run["score"]) for policy, run in practised.items()}
    assert scores["round_robin"] < scores["sticky"]


def test_sessions_that_stay_in_a_good_division_earn_most_of_the_points(practised):
    rows = {row["name"]: row for row in practised["sticky"]["criteria"]}
    assert float(rows["throughput"]["earned"]) >= 0.5 * float(rows["throughput"]["points"])


@pytest.fixture(scope="module")
def graded(site: Site, chosen: str) -> tuple[Api, dict[str, dict[str, Any]]]:
    """(a learner who was never given the file, policy → the run of a graded attempt)."""
    api = site.newcomer()
    return api, {policy: played(api, policy) for policy in POLICIES}


def test_three_policies_on_the_labs_default_trace_are_each_graded_with_a_score_and_a_sheet(graded):
    for run in graded[1].values():
        assert run["state"] == "graded", run["reason"]
        assert {row["name"] for row in run["criteria"]} == {"prediction", "throughput"}
        assert run["score"] is not None


def test_the_best_of_the_three_runs_is_the_grade(graded):
    api, runs_by_policy = graded
    (grade,) = api.get("grades/")["results"]
    assert float(grade["score"]) == max(float(run["score"]) for run in runs_by_policy.values())


def test_a_final_run_is_computed_where_a_default_trace_is_chosen(graded):
    api, _ = graded
    api.put(f"{BOARD}entry/", {"display_name": "On recorded sessions"})
    place = list(api.watch(f"{BOARD}entry/", lambda own: own["state"] != "computing"))[-1]
    # The final instance hangs on the site's secret: on its cluster a division may earn nothing, or hold no weights.
    assert place["state"] in ("ranked", "refused"), place
