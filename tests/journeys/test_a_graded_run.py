"""From submission to grade with nothing replaced: real web process, broker, worker and simulation."""

import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demo.api import Api
from tests.journeys.conftest import Site, is_running
from tests.requirements import require

LONG = {"num_steps": 128, "num_layers": 8}  # about half a minute
SHORT = {"num_steps": 2, "warmup_steps": 1, "num_layers": 2, "tokens_per_step": 512}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.usefixtures("processes_can_be_watched"),
]


@pytest.fixture(scope="module")
def processes_can_be_watched() -> None:
    require(sys.platform == "linux", "Linux's /proc")


def until(condition: Callable[[], Any], seconds: float = 180) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")


def finished(api: Api, run: dict[str, Any]) -> dict[str, Any]:
    return list(api.watch(run["url"], lambda r: r["state"] not in ("queued", "running")))[-1]


def open_attempt(api: Api) -> dict[str, Any]:
    place = api.post("tasks/moe-balance-hbm/attempts/")["url"]
    attempt: dict[str, Any] = list(api.watch(place, lambda a: a["state"] != "preparing"))[-1]
    assert attempt["state"] == "open", attempt["error"]
    return attempt


def submit(api: Api, attempt: dict[str, Any]) -> dict[str, Any]:
    prediction = {"straggler_gpu": 0, "max_over_mean": 1.5}
    body = {"task_attempt": attempt["public_id"], "params": {"eplb": True}, "prediction": prediction}
    run: dict[str, Any] = api.post(attempt["runs_url"], body)
    return run


def free_run(api: Api, params: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    run: dict[str, Any] = api.post("labs/moe-eplb/runs/", {"params": params, "seed": seed})
    return run


def test_a_submission_is_graded_by_a_worker_and_its_figures_are_drawn(site: Site):
    api = site.newcomer()
    run = finished(api, submit(api, open_attempt(api)))
    assert run["state"] == "graded", run["reason"]
    assert run["progress"]["done"] == run["progress"]["total"] > 0
    drawn = list(api.watch(run["url"], lambda r: r["figures_ready"]))[-1]
    svg = api.http.get(drawn["figures"][0]["url"], headers={"Accept": "image/svg+xml"})
    assert svg.text.startswith("<svg")


def test_a_worker_killed_in_the_middle_of_a_run_costs_a_try_and_neither_grade_nor_attempt(site: Site):
    api = site.newcomer()
    attempt = open_attempt(api)
    with site.nothing_computes():
        run = submit(api, attempt)
        until(lambda: api.get(run["url"])["state"] == "running")
        os.kill(site.pids["worker"], signal.SIGKILL)
    done = finished(api, run)
    assert (done["state"], done["tries"]) == ("graded", 2)
    grades = api.get("grades/")["results"]
    assert [(grade["score"], grade["revision"]) for grade in grades] == [(done["score"], 1)]


def test_cancelling_kills_the_child(site: Site):
    api = site.newcomer()
    run = free_run(api, LONG)
    until(lambda: api.get(run["url"])["progress"]["done"] > 0)
    children = site.children()
    assert children
    assert api.post(f"{run['url']}cancellation/")["state"] == "cancelled"
    until(lambda: not any(is_running(pid) for pid in children))
    assert finished(api, run)["state"] == "cancelled"


def test_equal_runs_give_equal_reports(site: Site):
    api, other = site.newcomer(), site.newcomer()
    first = finished(api, free_run(api, SHORT, seed=5))
    # An older engine's report is never reused, so this makes the second run compute.
    with sqlite3.connect(site.folder / "db.sqlite3", timeout=60) as database:
        database.execute("UPDATE labs_run SET engine_version = 'before'")
    second = finished(other, free_run(other, SHORT, seed=5))
    assert not second["reused"]
    reports = [api_.get(f"{run['url']}report/") for api_, run in ((api, first), (other, second))]
    for report in reports:
        del report["provenance"], report["engine_version"]
    assert reports[0] == reports[1]


def test_the_web_process_stays_small(site: Site):
    status = Path(f"/proc/{site.pids['web']}/status").read_text()
    resident_kib = int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")))
    assert resident_kib < 150 * 1024
