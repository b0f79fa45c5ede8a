"""A leaderboard on a whole site: entered over REST, computed by real workers, one of which is killed meanwhile."""

import os
import signal
import sqlite3
import subprocess
import sys
from typing import Any

import pytest

from demo.api import Api
from tests.journeys.conftest import ROOT, Site
from tests.journeys.test_a_graded_run import (
    finished,
    open_attempt,
    processes_can_be_watched,
    submit,
    until,
)

__all__ = ["processes_can_be_watched"]  # a fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("site"),
    pytest.mark.usefixtures("processes_can_be_watched"),
]

BOARD = "tasks/moe-balance-hbm/leaderboard/"
SWITCH = """
from labs.models import LabTask
LabTask.objects.filter(activity__slug="moe-balance-hbm").update(
    leaderboard=True, leaderboard_metric="max_over_mean_mean", leaderboard_better="less")
"""


@pytest.fixture(autouse=True)
def board(site: Site) -> None:
    """As an author switches it on in the admin."""
    environment = {**os.environ, "STAFFLOOP_VAR": str(site.folder)}
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "-c", SWITCH]
    subprocess.run(command, env=environment, check=True, capture_output=True)


def graded_newcomer(site: Site) -> Api:
    api = site.newcomer()
    assert finished(api, submit(api, open_attempt(api)))["state"] == "graded"
    return api


def settled(api: Api) -> dict[str, Any]:
    standing: dict[str, Any] = list(api.watch(f"{BOARD}entry/", lambda own: own["state"] != "computing"))[-1]
    return standing


def final_rows(site: Site) -> list[tuple[Any, ...]]:
    with sqlite3.connect(site.folder / "db.sqlite3", timeout=60) as database:
        return database.execute("SELECT id, state, lease, tries FROM labs_finalrun ORDER BY id").fetchall()


def test_two_learners_with_the_same_settings_get_the_same_score_and_stand_in_the_order_they_submitted(
    site: Site,
):
    first, second = graded_newcomer(site), graded_newcomer(site)
    second.put(f"{BOARD}entry/", {"display_name": "Second to submit"})
    first.put(f"{BOARD}entry/", {"display_name": "First to submit"})
    places = [settled(api) for api in (first, second)]
    assert [place["state"] for place in places] == ["ranked", "ranked"], places
    assert places[0]["score"] == places[1]["score"] > 1
    ranked = [row["display_name"] for row in first.get(BOARD)["results"]]
    assert ranked.index("First to submit") + 1 == ranked.index("Second to submit")


def test_a_worker_killed_in_the_middle_of_a_final_run_costs_a_try_and_no_grade(site: Site):
    api = graded_newcomer(site)
    grades = api.get("grades/")
    with site.nothing_computes():
        api.put(f"{BOARD}entry/", {"display_name": "Interrupted"})
        newest = until(lambda: (row := final_rows(site)[-1])[2] and row)
        os.kill(site.pids["worker"], signal.SIGKILL)
    place = settled(api)
    assert (place["state"], place["rank"] is not None) == ("ranked", True)
    assert next(row for row in final_rows(site) if row[0] == newest[0])[1:] == ("ready", None, 2)
    assert api.get("grades/") == grades
