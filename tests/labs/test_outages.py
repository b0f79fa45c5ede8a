"""A database that restarts costs a run nothing, and no worker its use."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from labs import execution, outages, runner, sweeper, tasks
from labs.models import Run, TaskAttempt, Worker
from quiz.models import Grade
from tests.labs.conftest import report_for
from tests.labs.test_execution import let_the_lease_run_out, state_of
from tests.labs.test_services import submit

pytestmark = pytest.mark.django_db(transaction=True)  # connections are closed


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "PAUSE_S", 0.0)


def away(
    times: int, then: Callable[..., Any], error: type[Exception] = OperationalError
) -> Callable[..., Any]:
    """A call that fails as often as said, as if the database had gone, and then does what it should."""
    left = [times]

    def call(*args: Any, **kwargs: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise error("server closed the connection unexpectedly")
        return then(*args, **kwargs)

    return call


@pytest.fixture
def run(attempt: TaskAttempt) -> Run:
    return submit(attempt)


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_change_is_made_again_while_the_database_is_away(error):
    assert outages.persistently(away(2, lambda: "made", error)) == "made"


def test_a_change_is_given_up_after_its_patience():
    with pytest.raises(OperationalError):
        outages.persistently(away(10**9, lambda: None), patience_s=0.05)


def test_a_heartbeat_goes_on_without_a_database_and_hears_it_again():
    beat = outages.tolerant(away(1, lambda steps: False))
    assert [beat(None), beat(None)] == [True, False]


def test_a_database_that_is_away_when_the_result_is_handed_in_costs_no_try(
    run, worker, simulation, monkeypatch
):
    simulation(lambda kwargs, on_beat: report_for(run))
    monkeypatch.setattr(execution, "finish_run", away(2, execution.finish_run))
    execution.execute_next_run(worker)
    run.refresh_from_db()
    assert (run.state, run.tries, Grade.objects.get().revision) == (Run.State.GRADED, 1, 1)


def test_a_result_whose_receipt_was_lost_is_entered_once(run, worker, simulation, monkeypatch):
    simulation(lambda kwargs, on_beat: report_for(run))
    enter = execution.finish_run
    answers = []

    def lose_the_answer(*args: Any, **kwargs: Any) -> bool:
        answers.append(enter(*args, **kwargs))
        if len(answers) == 1:
            raise OperationalError("server closed the connection unexpectedly")
        return answers[-1]

    monkeypatch.setattr(execution, "finish_run", lose_the_answer)
    execution.execute_next_run(worker)
    assert answers == [True, False]
    assert Grade.objects.get().changes.count() == 1


def test_after_an_outage_the_living_may_renew_their_leases_before_any_is_reaped(
    run, worker: Worker, monkeypatch
):
    assert run.claim(60, worker)
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    timer = sweeper.Sweeper()
    timer._worker = worker
    timer._spare_the_living()
    let_the_lease_run_out(run)
    timer.turn()
    assert state_of(run) == Run.State.RUNNING
    now[0] += 60
    timer.turn()
    assert state_of(run) == Run.State.QUEUED


def test_a_sweeper_outlives_whatever_interrupts_a_sweep(monkeypatch, settings):
    settings.SWEEP_INTERVAL_S = 0.001
    turns = []
    timer = sweeper.Sweeper()

    def fail() -> None:
        turns.append(1)
        if len(turns) == 3:
            timer.stop()
        raise InterfaceError("connection already closed")

    monkeypatch.setattr(timer, "turn", fail)
    timer._run()
    assert len(turns) == 3


def test_a_worker_that_starts_before_its_database_waits_for_it(monkeypatch):
    monkeypatch.setattr(tasks, "register_worker", away(3, lambda slots: slots))
    monkeypatch.setattr(tasks, "_worker", None)
    tasks.register(type("Sender", (), {"concurrency": 2}))
    assert tasks._worker == 2


def test_a_worker_whose_simulation_server_does_not_come_up_still_sweeps(monkeypatch):
    started: list[object] = []
    monkeypatch.setattr(tasks, "_worker", object())
    monkeypatch.setattr(tasks._sweeper, "start", started.append)

    def fail() -> None:
        raise runner.JobFailed("crash", "it did not come up")

    monkeypatch.setattr(runner, "warm_up", fail)
    tasks.start_timers()
    assert len(started) == 1
