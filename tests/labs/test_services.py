"""What a learner may do: open an attempt, submit a run, cancel it."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from labs.models import Run, TaskAttempt
from labs.services import attempts_left, cancel_run, draw_seed, open_attempt, submit_run
from quiz.errors import Closed, Conflict, InvalidInput, NotEnrolled, TooMany, UsedUp
from quiz.models import Learner
from tests.labs.at_once import meanwhile
from tests.labs.conftest import PREDICTION, execute, make_learner, report_for


def submit(attempt: TaskAttempt, **changes: Any) -> Run:
    values: dict[str, Any] = {"params": {"eplb": True}, "prediction": PREDICTION} | changes
    return submit_run(learner=attempt.learner, lab=attempt.task.lab, task_attempt=attempt, **values)


def pointers(refusal: pytest.ExceptionInfo[Any]) -> list[str]:
    return [pointer for pointer, _ in refusal.value.errors]


# Opening ------------------------------------------------------------------------------------------


def test_an_opened_attempt_is_prepared_by_a_worker(
    task, offering, learner, messages, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        attempt, created = open_attempt(learner=learner, task=task, offering=offering)
    assert created and attempt.state == TaskAttempt.State.PREPARING
    assert messages == [("labs.prepare_attempt", attempt.pk)]


def test_opening_again_hands_out_the_unfinished_attempt(attempt):
    again, created = open_attempt(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    assert (again, created) == (attempt, False)


def test_the_last_attempt_is_the_last(attempt):
    task = attempt.task
    TaskAttempt.objects.filter(pk=attempt.pk).update(state=TaskAttempt.State.GRADED)
    task.attempts_allowed = 1
    with pytest.raises(UsedUp, match="All 1 attempts"):
        open_attempt(learner=attempt.learner, task=task, offering=attempt.offering)


def test_an_attempt_that_we_could_not_prepare_does_not_count(attempt):
    task = attempt.task
    TaskAttempt.objects.filter(pk=attempt.pk).update(state=TaskAttempt.State.FAILED)
    task.attempts_allowed = 1
    _, created = open_attempt(learner=attempt.learner, task=task, offering=attempt.offering)
    assert created


def test_practice_counts_nothing_and_has_a_public_seed(attempt):
    before = attempts_left(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    practice, _ = open_attempt(
        learner=attempt.learner, task=attempt.task, offering=attempt.offering, practice=True, seed=7
    )
    after = attempts_left(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    assert practice.draw_seed == 7
    assert before == after


def test_a_graded_attempt_takes_no_seed_from_the_learner(task, offering, learner):
    with pytest.raises(InvalidInput) as refusal:
        open_attempt(learner=learner, task=task, offering=offering, seed=7)
    assert pointers(refusal) == ["/seed"]


def test_a_closed_class_opens_no_attempt(task, offering, learner):
    offering.closes_at = timezone.now() - timedelta(minutes=1)
    offering.save()
    with pytest.raises(Closed):
        open_attempt(learner=learner, task=task, offering=offering)


def test_a_stranger_opens_no_attempt(task, offering):
    stranger = Learner.objects.create_user(username="eve")
    with pytest.raises(NotEnrolled):
        open_attempt(learner=stranger, task=task, offering=offering)


def test_instances_differ_between_learners_and_attempts_and_can_be_drawn_again(task, offering, learner):
    other = make_learner("bob", offering)
    draws = {
        draw_seed(task=task, offering=offering, learner=who, number=n)
        for who in (learner, other)
        for n in (1, 2)
    }
    assert len(draws) == 4
    assert draw_seed(task=task, offering=offering, learner=learner, number=1) in draws


# Submitting ---------------------------------------------------------------------------------------


def test_a_submitted_run_is_queued_with_drawn_and_chosen_parameters_and_sent_on_commit(
    attempt, messages, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        run = submit(attempt, params={"eplb": True, "window_steps": 2})
    assert run.state == Run.State.QUEUED
    assert (run.params["window_steps"], run.params["num_gpus"], run.seed) == (2, 4, 11)
    assert messages == [("labs.run_lab", run.pk)]


@pytest.mark.parametrize(
    ("params", "pointer"),
    [
        ({"num_gpus": 8}, "/params/num_gpus"),
        ({"nonsense": 1}, "/params/nonsense"),
        ({"window_steps": 10_000}, "/params/window_steps"),
        ({"window_steps": "many"}, "/params/window_steps"),
        ([1, 2], "/params"),
    ],
)
def test_a_parameter_that_is_locked_unknown_or_out_of_range_is_pointed_at(attempt, params, pointer):
    with pytest.raises(InvalidInput) as refusal:
        submit(attempt, params=params)
    assert pointers(refusal) == [pointer]


def test_a_missing_prediction_is_pointed_at_together_with_a_wrong_parameter(attempt):
    with pytest.raises(InvalidInput) as refusal:
        submit(attempt, params={"nonsense": 1}, prediction=None)
    assert pointers(refusal) == ["/params/nonsense", "/prediction"]


def test_a_refused_submission_leaves_nothing_behind(attempt):
    with pytest.raises(InvalidInput):
        submit(attempt, params={"nonsense": 1})
    attempt.refresh_from_db()
    assert attempt.prediction is None
    assert not Run.objects.exists()


def test_a_prediction_is_locked_by_the_first_run_even_if_that_was_cancelled(attempt):
    cancel_run(run=submit(attempt))
    with pytest.raises(Conflict) as refusal:
        submit(attempt, prediction={**PREDICTION, "straggler_gpu": 3})
    assert pointers(refusal) == ["/prediction"]
    assert submit(attempt).state == Run.State.QUEUED


def test_one_run_of_an_attempt_at_a_time(attempt):
    submit(attempt)
    with pytest.raises(Conflict, match="under way"):
        submit(attempt)


def test_a_graded_attempt_is_used_up(attempt):
    TaskAttempt.objects.filter(pk=attempt.pk).update(state=TaskAttempt.State.GRADED)
    with pytest.raises(UsedUp):
        submit(attempt)


def test_a_class_that_closed_meanwhile_takes_no_run(attempt):
    attempt.offering.closes_at = timezone.now() - timedelta(minutes=1)
    attempt.offering.save()
    with pytest.raises(Closed):
        submit(attempt)


def test_a_learner_has_a_limited_number_of_runs_under_way(lab, learner, settings):
    settings.RUNS_ACTIVE_PER_LEARNER = 2
    for seed in range(2):
        submit_run(learner=learner, lab=lab, params={}, seed=seed)
    with pytest.raises(TooMany):
        submit_run(learner=learner, lab=lab, params={})


def test_a_free_run_takes_every_parameter_and_no_prediction(lab, learner):
    run = submit_run(learner=learner, lab=lab, params={"num_gpus": 8}, seed=3)
    assert (run.params["num_gpus"], run.seed, run.task_attempt) == (8, 3, None)
    with pytest.raises(InvalidInput) as refusal:
        submit_run(learner=learner, lab=lab, params={}, prediction=PREDICTION)
    assert pointers(refusal) == ["/prediction"]


# Cancelling ---------------------------------------------------------------------------------------


def test_a_cancelled_run_is_terminal_and_its_attempt_stays_open(attempt):
    run = cancel_run(run=submit(attempt))
    attempt.refresh_from_db()
    assert (run.state, attempt.state) == (Run.State.CANCELLED, TaskAttempt.State.OPEN)
    assert run.finished_at is not None


def test_cancelling_twice_is_as_good_as_once_and_a_finished_run_cannot_be_cancelled(attempt):
    run = cancel_run(run=submit(attempt))
    assert cancel_run(run=run).state == Run.State.CANCELLED
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
    with pytest.raises(Conflict, match="already failed"):
        cancel_run(run=run)


# Races --------------------------------------------------------------------------------------------


def in_parallel(count: int, act: Any) -> list[Any]:
    """Results or exceptions of `count` threads that start together, each on its own connection."""
    gate = threading.Barrier(count)
    results: list[Any] = []

    def work() -> None:
        gate.wait()
        try:
            results.append(act())
        except Exception as exc:
            results.append(exc)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.django_db(transaction=True)
def test_of_twenty_openings_at_the_last_attempt_one_makes_it(task, offering, learner):
    task.attempts_allowed = 1
    task.save()
    results = in_parallel(20, lambda: open_attempt(learner=learner, task=task, offering=offering))
    assert [created for _, created in results].count(True) == 1
    assert TaskAttempt.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_eight_submissions_of_one_attempt_one_is_queued(attempt):
    results = in_parallel(8, lambda: submit(attempt))
    assert sum(isinstance(result, Run) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == 7
    assert Run.objects.count() == 1


# Renewed labs -------------------------------------------------------------------------------------


def test_an_attempt_that_another_version_of_the_lab_drew_does_not_count_and_is_replaced(attempt):
    TaskAttempt.objects.filter(pk=attempt.pk).update(engine_version="older")
    attempt.refresh_from_db()
    before = attempts_left(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    with pytest.raises(Conflict, match="renewed"):
        submit(attempt)
    again, created = open_attempt(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    after = attempts_left(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    assert created and again != attempt
    assert before == after
    attempt.refresh_from_db()
    assert attempt.state == TaskAttempt.State.FAILED


def test_an_outdated_attempt_whose_run_is_under_way_is_left_to_it(attempt):
    submit(attempt)
    TaskAttempt.objects.filter(pk=attempt.pk).update(engine_version="older")
    _, created = open_attempt(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    assert not created


@pytest.mark.django_db(transaction=True)
def test_an_outdated_attempt_that_is_graded_while_another_is_opened_stays_graded(attempt, simulation):
    run = submit(attempt)
    simulation(report_for(run))
    TaskAttempt.objects.filter(pk=attempt.pk).update(engine_version="older")
    with meanwhile('SELECT %s AS "a" FROM "labs_run"', lambda: execute(run)) as failures:
        open_attempt(learner=attempt.learner, task=attempt.task, offering=attempt.offering)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.error, failures) == (TaskAttempt.State.GRADED, "", [])


def test_a_learner_with_runs_of_tasks_can_be_deleted_with_all_of_them(attempt):
    submit(attempt)
    attempt.learner.delete()
    assert not Run.objects.exists()
    assert not TaskAttempt.objects.exists()
