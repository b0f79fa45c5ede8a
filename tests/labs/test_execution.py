"""A worker's side: one grade whatever happens, and our failures are never a zero."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db.models.functions import Now

from labs import runner
from labs.execution import execute_next_run, finish_run
from labs.models import LabTask, Run, TaskAttempt
from labs.services import cancel_run, open_attempt, submit_run
from labs.sweeper import sweep
from quiz.models import Grade
from tests.labs.conftest import ARITHMETIC, PREDICTION, execute, report_for
from tests.labs.test_services import in_parallel, submit


@pytest.fixture
def run(attempt: TaskAttempt) -> Run:
    return submit(attempt)


def state_of(run: Run) -> str:
    run.refresh_from_db()
    return run.state


def let_the_lease_run_out(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(lease_expires_at=Now() - timedelta(seconds=1))


def test_a_run_is_graded_with_score_sheet_and_grade(run, simulation):
    simulation(report_for(run))
    execute(run)
    assert state_of(run) == Run.State.GRADED
    # 0.5 for the prediction and half of 9.5 for balance, of 10.
    assert run.score == Decimal("0.5250")
    assert [row["name"] for row in run.sheet["criteria"]] == ["prediction", "within_budget", "balance"]
    assert Grade.objects.get().score == run.score
    run.task_attempt.refresh_from_db()
    assert run.task_attempt.state == TaskAttempt.State.GRADED


def test_provenance_is_kept_apart_from_the_report(run, simulation):
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    assert "provenance" not in run.report
    assert run.provenance == ARITHMETIC


def test_a_score_of_exactly_zero_is_a_grade(run, simulation):
    simulation(report_for(run, within_budget=0))
    run.prediction = None
    run.save()
    execute(run)
    assert Grade.objects.get().score == 0


def test_progress_is_the_number_of_finished_steps(run, simulation):
    def simulate(kwargs, on_beat):
        assert on_beat((3, 20))
        seen.append(Run.objects.get(pk=run.pk))
        return report_for(run)

    seen: list[Run] = []
    simulation(simulate)
    execute(run)
    assert (seen[0].steps_done, seen[0].steps_total) == (3, 20)


@pytest.mark.django_db(transaction=True)
def test_two_deliveries_at_once_make_one_grade(run, simulation, worker):
    calls: list[int] = []

    def simulate(kwargs, on_beat):
        calls.append(1)
        return report_for(run)

    simulation(simulate)
    in_parallel(4, lambda: execute_next_run(worker))
    assert state_of(run) == Run.State.GRADED
    assert len(calls) == 1
    assert Grade.objects.get().revision == 1


def test_a_late_worker_whose_lease_was_retaken_loses(run, simulation):
    assert run.claim(60)
    late = Run.objects.get(pk=run.pk)
    let_the_lease_run_out(run)
    sweep()
    simulation(report_for(run))
    execute(run)
    assert not finish_run(late, report_for(run, max_over_mean_mean=1.0))
    assert state_of(run) == Run.State.GRADED
    assert run.score == Decimal("0.5250")


def test_a_cancelled_run_is_not_graded_by_a_worker_that_finishes_it(run):
    assert run.claim(60)
    cancel_run(run=Run.objects.get(pk=run.pk))
    assert not finish_run(run, report_for(run))
    assert state_of(run) == Run.State.CANCELLED
    assert not Grade.objects.exists()


def test_a_heartbeat_of_a_cancelled_run_says_stop(run):
    assert run.claim(60)
    assert run.beat(60, (1, 2))
    cancel_run(run=Run.objects.get(pk=run.pk))
    assert not run.beat(60, (2, 2))


def test_a_run_over_its_time_limit_is_terminal_at_once_and_gives_the_attempt_back(run, simulation):
    simulation(runner.JobTimedOut())
    execute(run)
    assert state_of(run) == Run.State.TIMED_OUT
    run.task_attempt.refresh_from_db()
    assert run.task_attempt.state == TaskAttempt.State.OPEN


def test_a_crash_is_tried_three_times_and_then_failed_with_a_reason_and_no_grade(run, simulation, messages):
    simulation(runner.JobFailed("crash", "killed by signal 9"))
    for _ in range(3):
        execute(run)
    assert state_of(run) == Run.State.FAILED
    assert run.reason == "The simulation crashed. It was tried 3 times."
    assert "killed by signal 9" in run.fault
    assert messages == [("labs.run_lab", run.pk)] * 2
    assert not Grade.objects.exists()


def test_refused_parameters_fail_at_once_since_the_next_try_would_refuse_them_too(run, simulation):
    simulation(runner.JobFailed("invalid", "own_image: image: the file is truncated"))
    execute(run)
    assert (state_of(run), run.tries) == (Run.State.FAILED, 1)
    assert "own_image" not in run.reason  # of an attempt: a message might quote what is hidden


def test_a_free_runs_refused_parameter_is_named_to_its_learner(learner, lab, simulation):
    free = submit_run(learner=learner, lab=lab, params={})
    simulation(runner.JobFailed("invalid", "own_image: image: the file is truncated"))
    execute(free)
    assert state_of(free) == Run.State.FAILED
    assert free.reason.endswith("own_image: image: the file is truncated")


def test_after_our_failure_the_same_attempt_takes_another_run(run, simulation):
    simulation(runner.JobFailed("crash", "killed"))
    for _ in range(3):
        execute(run)
    again = submit(run.task_attempt)
    simulation(report_for(again))
    execute(again)
    assert state_of(again) == Run.State.GRADED


@pytest.mark.parametrize(
    "broken",
    [
        {"max_over_mean_mean": float("nan")},
        {"max_over_mean_mean": float("inf")},
        {"max_over_mean_mean": None},
        {"max_over_mean_before_mean": 1.0},
        {"placement": "gone"},
    ],
)
def test_an_unusable_result_fails_the_run_as_our_fault(run, simulation, broken):
    simulation(report_for(run, **broken))
    execute(run)
    assert state_of(run) == Run.State.FAILED
    assert run.score is None
    assert not Grade.objects.exists()


def test_a_rubric_that_became_invalid_fails_the_run_as_our_fault(run, simulation):
    LabTask.objects.update(rubric={"criteria": []})
    simulation(report_for(run))
    execute(run)
    assert state_of(run) == Run.State.FAILED
    assert not Grade.objects.exists()


@pytest.mark.parametrize("nothing", [None, {}, [], "report", 3])
def test_an_empty_result_fails_the_run_as_our_fault(run, simulation, nothing):
    simulation(nothing)
    execute(run)
    assert state_of(run) == Run.State.FAILED


def test_a_broken_invariant_fails_the_run_and_names_the_event(run, simulation):
    report = report_for(run)
    report["invariants"]["tokens_conserved"] = {"state": "broken", "first_event": "step 3, layer 1"}
    simulation(report)
    execute(run)
    assert state_of(run) == Run.State.FAILED
    assert "step 3, layer 1" in run.fault


def test_an_invariant_broken_by_a_setting_is_the_lesson_and_is_graded(run, simulation):
    report = report_for(run)
    report["invariants"]["tokens_conserved"] = {"state": "broken_by_setting", "first_event": "step 3"}
    simulation(report)
    execute(run)
    assert state_of(run) == Run.State.GRADED


def test_a_report_above_the_size_limit_is_not_kept(run, simulation, settings):
    settings.RUN_REPORT_LIMIT_BYTES = 1000
    simulation(report_for(run))
    execute(run)
    assert state_of(run) == Run.State.FAILED
    assert "at most 1000" in run.fault


def test_a_report_of_another_version_goes_back_to_the_queue_and_grades_nothing(run, simulation):
    simulation(report_for(run) | {"engine_version": "replaced"})
    execute(run)
    run.refresh_from_db()
    assert (run.state, run.report, run.score) == ("queued", None, None)
    assert run.reason == "It was computed by another version of the lab."
    assert "computed by replaced" in run.fault


def test_practice_is_judged_and_gives_no_grade(task, offering, learner, attempt, simulation):
    practice, _ = open_attempt(learner=learner, task=task, offering=offering, practice=True)
    TaskAttempt.objects.filter(pk=practice.pk).update(
        state=TaskAttempt.State.OPEN,
        instance=attempt.instance,
        visible={},
        engine_version=attempt.engine_version,
    )
    practice.refresh_from_db()
    run = submit(practice)
    simulation(report_for(run))
    execute(run)
    assert state_of(run) == Run.State.GRADED
    assert run.score == Decimal("0.5250")
    assert not Grade.objects.exists()


def test_a_free_run_is_finished_without_a_score(lab, learner, simulation):
    run = submit_run(learner=learner, lab=lab, params={})
    simulation(report_for(run))
    execute(run)
    assert state_of(run) == Run.State.GRADED
    assert (run.score, run.sheet) == (None, None)


def test_a_worse_second_attempt_keeps_the_better_grade(run, simulation, task, offering, learner):
    simulation(report_for(run))
    execute(run)
    second, _ = open_attempt(learner=learner, task=task, offering=offering)
    TaskAttempt.objects.filter(pk=second.pk).update(
        state=TaskAttempt.State.OPEN,
        instance=run.task_attempt.instance,
        visible={},
        engine_version=run.task_attempt.engine_version,
    )
    second.refresh_from_db()
    worse = submit(second, prediction=PREDICTION)
    simulation(report_for(worse, max_over_mean_mean=1.9))
    execute(worse)
    assert state_of(worse) == Run.State.GRADED
    assert Grade.objects.get().score == Decimal("0.5250")


# Reuse --------------------------------------------------------------------------------------------


def finished_free_run(lab, learner, simulation, seed: int = 0) -> Run:
    run = submit_run(learner=learner, lab=lab, params={}, seed=seed)
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    return run


def test_an_equal_free_run_reuses_the_report_and_says_so(lab, learner, simulation):
    first = finished_free_run(lab, learner, simulation)
    second = finished_free_run(lab, learner, simulation)
    assert (first.reused, second.reused) == (False, True)
    assert second.report == first.report


def test_another_seed_another_engine_or_another_arithmetic_computes_anew(
    lab, learner, simulation, monkeypatch
):
    first = finished_free_run(lab, learner, simulation)
    assert not finished_free_run(lab, learner, simulation, seed=1).reused
    Run.objects.filter(pk=first.pk).update(engine_version="older")
    assert not finished_free_run(lab, learner, simulation).reused
    Run.objects.update(provenance=ARITHMETIC | {"cpu_capability": "DEFAULT"})
    assert not finished_free_run(lab, learner, simulation).reused


def test_a_graded_attempt_never_reuses_a_report(attempt, lab, learner, simulation):
    free = submit_run(learner=learner, lab=lab, params={"eplb": True}, seed=attempt.instance["seed"])
    simulation(report_for(free))
    execute(free)
    run = submit(attempt)
    execute(run)
    run.refresh_from_db()
    assert (run.state, run.params, run.reused) == (Run.State.GRADED, free.params, False)
