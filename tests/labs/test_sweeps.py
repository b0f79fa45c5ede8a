"""The explore sweep: asked for once, computed once a version, retried three times, served to everybody."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from rest_framework.test import APIClient

from labs import runner
from labs.models import Sweep
from labs.sweeper import sweep as sweep_round
from labs.sweeps import compute_sweep
from simworkers.catalog import engine_version

URL = "/api/v1/labs/moe-eplb/sweep/"
DATA: dict[str, Any] = {
    "lab": "moe-eplb",
    "engine_version": "x",
    "seed": 0,
    "params": {"num_gpus": 4},
    "axes": [{"name": "eplb", "unit": "", "values": [False, True]}],
    "lines": "eplb",
    "metrics": [{"name": "speedup", "unit": "ratio", "description": "Faster.", "values": [1.0, 1.5]}],
}


@pytest.fixture
def api(learner, lab):
    client = APIClient()
    client.force_authenticate(learner)
    return client


@pytest.fixture
def waiting(api, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        api.get(URL)
    return Sweep.objects.get()


def test_the_first_to_ask_has_it_computed_and_the_others_wait(
    api, messages, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        answers = [api.get(URL) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202] * 3
    assert answers[0]["Retry-After"] == "2"
    assert messages == [("labs.compute_sweep", Sweep.objects.get().pk)]


def test_a_computed_sweep_is_served_with_an_etag_and_not_sent_twice(api, waiting, simulation):
    simulation(DATA)
    compute_sweep(waiting.pk)
    answer = api.get(URL)
    assert answer.status_code == 200
    assert answer.json()["data"] == DATA
    assert api.get(URL, headers={"If-None-Match": answer["ETag"]}).status_code == 304


def test_a_lab_that_is_not_there_has_no_sweep(api):
    assert api.get("/api/v1/labs/nope/sweep/").status_code == 404


def test_a_failed_sweep_is_tried_three_times_and_says_so(api, waiting, simulation):
    simulation(runner.JobFailed("crash", "it broke"))
    for tries in (1, 2, 3):
        assert api.get(URL).status_code == 202, tries
        compute_sweep(waiting.pk)
    answer = api.get(URL)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "It was tried 3 times, the last time: crash: it broke"
    compute_sweep(waiting.pk)
    waiting.refresh_from_db()
    assert waiting.tries == 3


@pytest.mark.parametrize(
    ("handed_back", "reason"),
    [
        ({"lab": "moe-eplb"}, "Field required"),
        ({**DATA, "params": {"text": "x" * 2**20}}, "at most 1048576 are kept"),
        ({**DATA, "params": {"ratio": float("nan")}}, "not JSON compliant"),
    ],
)
def test_what_is_no_sweep_is_not_kept(waiting, simulation, handed_back, reason):
    simulation(handed_back)
    compute_sweep(waiting.pk)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.data) == ("waiting", None)
    assert reason in waiting.reason


def test_a_sweep_that_somebody_computes_is_not_computed_twice(waiting, simulation):
    simulation(lambda kwargs, on_beat: pytest.fail("computed twice"))
    Sweep.objects.update(lease="00000000-0000-4000-8000-000000000000", lease_expires_at=Now() + timedelta(60))
    compute_sweep(waiting.pk)


def test_a_sweep_of_another_version_is_left_to_who_has_it(waiting, simulation):
    simulation(lambda kwargs, on_beat: pytest.fail("not ours"))
    Sweep.objects.update(engine_version="another")
    compute_sweep(waiting.pk)


def test_a_new_engine_version_is_a_new_sweep(api, waiting):
    Sweep.objects.update(engine_version="before")
    assert api.get(URL).status_code == 202
    assert set(Sweep.objects.values_list("engine_version", flat=True)) == {
        "before",
        engine_version("moe-eplb"),
    }


def test_a_worker_that_lost_its_lease_writes_nothing(waiting, simulation):
    def lose(kwargs, on_beat):
        Sweep.objects.update(lease="00000000-0000-4000-8000-000000000000")
        assert not on_beat(None)
        return DATA

    simulation(lose)
    compute_sweep(waiting.pk)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.data) == ("waiting", None)


def test_the_sweeper_sends_again_what_nobody_heard_of_and_what_fell_silent(waiting, messages):
    del messages[:]
    sweep_round()
    assert messages == []
    Sweep.objects.update(sent_at=Now() - timedelta(hours=1), lease_expires_at=Now() - timedelta(minutes=1))
    sweep_round()
    assert messages == [("labs.compute_sweep", waiting.pk)]


def test_the_command_computes_here_and_now_and_tries_a_failed_one_again(lab, simulation, capsys):
    Sweep.objects.create(lab=lab, engine_version=engine_version(lab.slug), state="failed", tries=3)
    simulation(DATA)
    call_command("compute_sweeps")
    assert "moe-eplb: ready" in capsys.readouterr().out.splitlines()
    assert Sweep.objects.get(lab=lab).tries == 1


def test_the_command_fails_where_a_sweep_does(lab, simulation):
    simulation(runner.JobTimedOut("too long"))
    with pytest.raises(CommandError, match="moe-eplb: too long"):
        call_command("compute_sweeps")


def test_a_sweep_is_given_a_hundred_runs_time_and_not_that_of_one(waiting, settings, monkeypatch):
    given: list[float] = []

    def call(entry: str, kwargs: Any, *, limits: runner.Limits, **rest: Any) -> Any:
        given.append(limits.time_s)
        return DATA

    settings.RUN_TIME_LIMIT_S = 1
    monkeypatch.setattr("labs.runner.call", call)
    compute_sweep(waiting.pk)
    assert given == [settings.EXPLORE_TIME_LIMIT_S] and settings.EXPLORE_TIME_LIMIT_S >= 100
