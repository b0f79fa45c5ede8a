"""What was lost is found: messages, workers, drawings."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from labs.drawing import draw_run_figures
from labs.models import Lab, Run, TaskAttempt, Worker
from labs.preparation import prepare_attempt
from labs.runner import JobFailed
from labs.services import open_attempt, submit_run
from labs.sweeper import sweep
from quiz.models import Learner
from tests.labs.conftest import execute, make_learner, report_for
from tests.labs.test_execution import let_the_lease_run_out, state_of
from tests.labs.test_services import in_parallel, submit

pytestmark = pytest.mark.usefixtures("worker")


@pytest.fixture
def run(attempt: TaskAttempt) -> Run:
    return submit(attempt)


def test_a_run_whose_message_was_never_sent_is_sent_once(run, messages):
    sweep()
    sweep()
    assert messages == [("labs.run_lab", run.pk)]


def test_a_run_whose_message_was_lost_is_sent_again_after_a_while(run, messages, settings):
    sweep()
    settings.SWEEP_RESEND_S = 0
    sweep()
    assert messages == [("labs.run_lab", run.pk)] * 2


def test_a_run_sent_twice_is_executed_once(run, simulation):
    calls: list[int] = []

    def simulate(kwargs, on_beat):
        calls.append(1)
        return report_for(run)

    simulation(simulate)
    execute(run)
    execute(run)
    assert calls == [1]


def test_an_expired_lease_is_retaken_and_the_run_sent_at_once(run, messages):
    assert run.claim(60)
    let_the_lease_run_out(run)
    sweep()
    assert state_of(run) == Run.State.QUEUED
    assert messages == [("labs.run_lab", run.pk)]


def test_a_run_that_is_being_worked_on_is_left_alone(run, messages):
    assert run.claim(60)
    sweep()
    assert state_of(run) == Run.State.RUNNING
    assert messages == []


def test_a_run_interrupted_three_times_is_failed_and_its_attempt_given_back(run):
    for _ in range(3):
        assert Run.objects.get(pk=run.pk).claim(60)
        let_the_lease_run_out(run)
        sweep()
    assert state_of(run) == Run.State.FAILED
    assert run.reason == "It was interrupted 3 times."
    run.task_attempt.refresh_from_db()
    assert run.task_attempt.state == TaskAttempt.State.OPEN


def test_a_preparation_that_nobody_heard_of_is_sent_again(task, offering, learner, messages):
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    sweep()
    assert messages == [("labs.prepare_attempt", attempt.pk)]


def test_a_preparation_interrupted_three_times_is_failed(task, offering, learner):
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    TaskAttempt.objects.filter(pk=attempt.pk).update(
        tries=3, lease=attempt.public_id, lease_expires_at=Now() - timedelta(seconds=1)
    )
    sweep()
    attempt.refresh_from_db()
    assert attempt.state == TaskAttempt.State.FAILED


def test_a_preparation_whose_worker_fell_silent_is_sent_at_once(task, offering, learner, messages):
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    TaskAttempt.objects.filter(pk=attempt.pk).update(
        tries=1, lease=attempt.public_id, lease_expires_at=Now() - timedelta(seconds=1), sent_at=Now()
    )
    sweep()
    assert messages == [("labs.prepare_attempt", attempt.pk)]


@pytest.mark.django_db(transaction=True)
def test_two_deliveries_of_a_preparation_draw_one_instance(task, offering, learner, simulation):
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    calls: list[int] = []

    def prepare(kwargs, on_beat):
        calls.append(1)
        return {"params": {}, "visible": {"gpus": 4}, "seed": 5}

    simulation(prepare)
    in_parallel(4, lambda: prepare_attempt(attempt.pk))
    attempt.refresh_from_db()
    assert (attempt.state, attempt.visible) == (TaskAttempt.State.OPEN, {"gpus": 4})
    assert calls == [1]


def submit_free(learner: Learner, lab: Lab) -> Run:
    return submit_run(learner=learner, lab=lab, params={})


@pytest.fixture
def undrawn(run, simulation, messages, settings) -> Run:
    """Graded, its first message to draw lost."""
    simulation(report_for(run))
    execute(run)
    messages.clear()
    settings.SWEEP_RESEND_S = 0
    return run


def test_figures_whose_messages_are_lost_are_asked_for_until_somebody_begins(undrawn, messages):
    for _ in range(5):
        sweep()
    assert messages == [("labs.draw_figures", undrawn.pk)] * 5


def test_figures_that_cannot_be_drawn_are_tried_three_times(undrawn, simulation, messages):
    simulation(JobFailed("crash", "the renderer died"))
    for _ in range(5):
        sweep()
        draw_run_figures(undrawn.pk)
    assert messages == [("labs.draw_figures", undrawn.pk)] * 3


def test_no_figures_are_asked_for_while_all_slots_are_taken(undrawn, messages, worker):
    Worker.objects.update(slots=0)
    sweep()
    assert messages == []


def test_messages_on_their_way_count_against_the_free_slots(run, task, offering, messages, worker):
    other = make_learner("bob", offering)
    waiting = [submit_free(other, task.lab) for _ in range(3)]
    Run.objects.filter(pk__in=[waiting[0].pk, waiting[1].pk]).update(sent_at=Now())
    Run.objects.filter(pk__in=[run.pk, waiting[2].pk]).update(sent_at=Now() - timedelta(minutes=5))
    messages.clear()
    sweep()  # two slots, two messages under way
    assert messages == []
    Run.objects.filter(pk=waiting[0].pk).update(state=Run.State.CANCELLED)
    sweep()
    assert len(messages) == 1


def test_a_message_that_the_broker_did_not_take_is_sent_by_the_next_round(run, monkeypatch):
    Run.objects.update(sent_at=Now() - timedelta(minutes=5))
    answers = [False, True]
    monkeypatch.setattr("labs.dispatch.publish", lambda task, pk: answers.pop(0))
    sweep()
    assert state_of(run) == Run.State.QUEUED
    sweep()
    assert answers == []


def test_drawings_that_were_asked_for_count_against_the_free_slots(
    undrawn, offering, task, messages, settings
):
    settings.SWEEP_RESEND_S = 30
    other = make_learner("bob", offering)
    for asked_s in (5, 5, 500):
        Run.objects.create(
            learner=other,
            lab=task.lab,
            params={},
            seed=0,
            state=Run.State.GRADED,
            report={},
            finished_at=Now(),
            figures_sent_at=Now() - timedelta(seconds=asked_s),
        )
    Run.objects.filter(pk=undrawn.pk).update(figures_tries=3)
    sweep()  # two slots, two drawings asked for
    assert messages == []
    settings.SWEEP_RESEND_S = 4
    sweep()
    assert len(messages) == 2
