"""A final run: computed on the hidden instance by whoever holds its lease, retried, refused, and never near a grade."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from pydantic import Field

from labs import runner
from labs.final_runs import (
    Refused,
    compute_final_run,
    forget_instances,
    ranked_score,
    send_unheard_final_runs,
)
from labs.leaderboard import add_missing_final_runs, final_seed, standing_of, withdraw
from labs.models import FinalRun, LabTask, Run, TaskAttempt, TraceFile
from labs.services import submit_run
from labs.sweeper import sweep
from quiz.models import Grade, GradeChange
from simworkers import catalog
from simworkers.catalog import engine_version
from simworkers.moe.params import MoeParams
from tests.labs.leaderboards import (
    FINAL_CHECKPOINT,
    FINAL_RUN_SEED,
    METRIC,
    at_once,
    board,
    child,
    compute_all,
    entered,
    graded,
    instance,
)
from tests.labs.trace_files import draw_from_trace, ready

__all__ = ["board", "child", "entered", "graded"]  # fixtures

OTHER_LEASE = "00000000-0000-4000-8000-000000000000"
CRASH = runner.JobFailed("crash", f"it broke at seed {FINAL_RUN_SEED}")


@pytest.fixture
def final(entered) -> FinalRun:
    return entered("ada", redundant_slots_per_gpu=2).final_runs.get()


def computed(final: FinalRun) -> FinalRun:
    compute_final_run(final.pk)
    final.refresh_from_db()
    return final


# The computation -----------------------------------------------------------------------------------


def test_the_open_parameters_of_the_graded_run_meet_the_final_instance(board, final, child):
    worker = child(1.125)
    assert (computed(final).state, final.score) == ("ready", 1.125)
    (first, drawing), (second, job) = worker.calls
    assert (first, drawing["seed"]) == ("prepare_task", final_seed(board))
    assert (second, job["seed"]) == ("run_job", FINAL_RUN_SEED)
    assert job["params"]["checkpoint_seed"] == FINAL_CHECKPOINT
    assert job["params"]["redundant_slots_per_gpu"] == 2
    assert final.engine_version == engine_version("moe-eplb")


def test_all_learners_meet_the_same_instance(board, entered, child):
    for name in ("ada", "bob"):
        entered(name)
    worker = child()
    compute_all()
    seeds = [kwargs["seed"] for entry, kwargs in worker.calls if entry == "prepare_task"]
    assert seeds == [final_seed(board)]  # drawn once in this process
    jobs = [kwargs["params"] for entry, kwargs in worker.calls if entry == "run_job"]
    assert len(jobs) == 2 and jobs[0] == jobs[1]


def test_another_process_and_another_edition_draw_the_instance_for_themselves(board, entered, child):
    entry = entered("ada")
    worker = child()
    compute_all()
    forget_instances()
    FinalRun.objects.update(state="waiting", score=None)
    compute_all()
    board.leaderboard_metric = "sampling_floor"
    board.save()
    add_missing_final_runs()
    compute_all()
    assert [name for name, _ in worker.calls].count("prepare_task") == 3
    assert set(entry.final_runs.values_list("state", flat=True)) == {"ready"}


def test_the_row_keeps_nothing_of_the_instance(final, child):
    child()
    computed(final)
    kept = str(FinalRun.objects.values().get())
    assert str(FINAL_RUN_SEED) not in kept and str(FINAL_CHECKPOINT) not in kept


def test_a_final_run_of_another_edition_is_left_to_who_has_it(final, child):
    worker = child()
    FinalRun.objects.update(edition="of another engine version")
    assert (computed(final).state, worker.calls) == ("waiting", [])


@pytest.mark.parametrize("change", [{"published": False}, {"leaderboard": False}])
def test_nothing_is_computed_for_a_board_that_nobody_sees(final, child, change):
    worker = child()
    LabTask.objects.update(**change)
    assert (computed(final).state, worker.calls) == ("waiting", [])


# Refused: the learner's own settings ---------------------------------------------------------------


@pytest.mark.parametrize("score", [float("nan"), float("inf"), None, "high"])
def test_a_report_whose_metric_is_no_finite_number_is_our_fault_and_ranks_nobody(final, child, score):
    child(score)
    computed(final)
    assert (final.state, final.score, final.tries) == ("failed", None, 1)
    assert final.reason == "The simulation's result could not be used. That is our fault, not yours."
    assert standing_of(final.entry).rank is None


@pytest.mark.parametrize("metrics", [{}, {METRIC: None}, {METRIC: True}, {METRIC: "1.0"}])
def test_a_metric_that_is_missing_or_no_number_ranks_nobody(board, metrics):
    with pytest.raises(Refused, match="no finite number"):
        ranked_score(board, {"within_budget": 1, **metrics})


def test_a_report_that_lacks_a_metric_of_the_lab_is_our_fault_and_says_so(final, child, monkeypatch):
    worker = child()
    report = worker.report
    monkeypatch.setattr(worker, "report", lambda kwargs: report(kwargs) | {"metrics": {"within_budget": 1}})
    computed(final)
    assert (final.state, final.score, final.tries) == ("failed", None, 1)
    assert "our fault" in final.reason


def test_who_breaks_what_the_task_requires_is_not_ranked_however_good_the_score(final, child):
    worker = child(1.0)
    worker.changes = {"within_budget": 0}
    computed(final)
    assert final.state == "refused"
    assert final.reason == (
        "On the final instance it misses what the task requires: Extra copies fit the HBM budget."
    )


def test_settings_that_do_not_fit_the_final_instance_are_refused_and_quote_nothing_of_it(final, child):
    worker = child()
    worker.drawn = instance(params=instance()["params"] | {"num_experts": 7, "top_k": 6})
    computed(final)
    assert (final.state, final.reason) == ("refused", "What you handed in does not fit the final instance.")
    assert final.fault


def test_a_refusal_by_the_simulation_itself_tells_staff_alone_what_it_was(final, child):
    child(runner.JobFailed("invalid", f"checkpoint_seed: {FINAL_CHECKPOINT} is odd"))
    computed(final)
    assert final.reason == "The simulation refused your settings on the final instance."
    assert str(FINAL_CHECKPOINT) in final.fault


def test_what_takes_too_long_is_refused_at_once(final, child):
    child(runner.JobTimedOut())
    computed(final)
    assert (final.state, final.tries) == ("refused", 1)
    assert final.reason.startswith("It took longer than")


# Failed: our side ----------------------------------------------------------------------------------


def test_a_crash_is_tried_again_and_may_yet_succeed(board, final, child):
    worker = child(CRASH)
    assert (computed(final).state, final.tries, final.sent_at) == ("waiting", 1, None)
    worker.score = 1.25
    assert (computed(final).state, final.tries, final.score, final.fault) == ("ready", 2, 1.25, "")


def test_after_three_tries_it_is_failed_and_the_reason_quotes_no_seed(final, child):
    child(CRASH)
    for _ in range(4):
        computed(final)
    assert (final.state, final.tries) == ("failed", 3)
    assert final.reason == "The simulation crashed. That is our fault. It was tried 3 times."
    assert str(FINAL_RUN_SEED) in final.fault
    assert standing_of(final.entry).state == "failed"


@pytest.mark.parametrize(
    "failure", [runner.JobFailed("invalid", "seed: is odd"), runner.JobTimedOut(), {"params": "no instance"}]
)
def test_an_instance_that_cannot_be_drawn_is_our_fault_whatever_the_child_calls_it(final, child, failure):
    worker = child()
    worker.drawn = failure
    assert (computed(final).state, final.tries) == ("waiting", 1)
    assert final.fault
    for _ in range(2):
        computed(final)
    assert final.state == "failed"
    assert final.reason.startswith("The final instance could not be drawn, which is our fault.")


class TracedMoeParams(MoeParams):
    trace: str = Field("synthetic", description="", json_schema_extra={"format": "trace"})


@pytest.mark.parametrize("draws_from_it", [True, False])
def test_a_damaged_default_trace_fails_only_what_is_drawn_from_it(
    board, entered, child, stored, monkeypatch, draws_from_it
):
    """Drawn without it, scores of one edition would not compare."""
    job = replace(board.lab.job, params=TracedMoeParams)
    monkeypatch.setitem(catalog._JOBS, job.name, job)
    if draws_from_it:
        draw_from_trace(monkeypatch, board)
    board.lab.default_trace = ready(None)
    board.lab.save()
    final = entered("ada").final_runs.get()
    (stored / TraceFile.objects.get().location).write_bytes(b"half")
    worker = child()
    computed(final)
    assert final.state == ("waiting" if draws_from_it else "ready")
    assert ("not what was stored" in final.fault) == draws_from_it
    assert [kwargs["files"] for entry, kwargs in worker.calls if entry == "prepare_task"] == (
        [] if draws_from_it else [{}]
    )


def test_a_broken_invariant_fails_at_once_since_another_try_would_break_it_too(final, child, monkeypatch):
    worker = child()
    report = worker.report

    def broken(kwargs: dict[str, Any]) -> dict[str, Any]:
        return report(kwargs) | {"invariants": {"tokens_conserved": {"state": "broken", "first_event": "x"}}}

    monkeypatch.setattr(worker, "report", broken)
    computed(final)
    assert (final.state, final.tries) == ("failed", 1)
    assert "our fault" in final.reason


def test_a_child_of_another_engine_version_is_our_fault(final, child, monkeypatch):
    worker = child()
    report = worker.report
    monkeypatch.setattr(worker, "report", lambda kwargs: report(kwargs) | {"engine_version": "older"})
    computed(final)
    assert (final.state, final.score) == ("waiting", None)
    assert "restart this worker" in final.fault


# Leases, deliveries, killed workers ----------------------------------------------------------------


def test_two_deliveries_compute_once(final, child):
    worker = child()
    computed(final)
    computed(final)
    assert len(worker.calls) == 2  # one drawing, one run
    assert FinalRun.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_deliveries_at_once_make_one_score(final, child):
    child()
    at_once(*[lambda: compute_final_run(final.pk)] * 4)
    final.refresh_from_db()
    assert (final.state, final.tries) == ("ready", 1)


def test_the_late_worker_whose_lease_was_taken_over_writes_nothing(final, child):
    worker = child(1.75)
    worker.score = lambda params: FinalRun.objects.update(lease=OTHER_LEASE) and 1.75
    computed(final)
    assert (final.state, final.score, str(final.lease)) == ("waiting", None, OTHER_LEASE)


def test_a_killed_workers_final_run_is_sent_again_and_taken_over(final, child, worker, messages):
    silent = Now() - timedelta(seconds=60)
    FinalRun.objects.update(lease=OTHER_LEASE, lease_expires_at=silent, sent_at=silent, tries=1)
    messages.clear()
    sweep()
    assert ("labs.compute_final_run", final.pk) in messages
    child(1.25)
    assert (computed(final).state, final.tries) == ("ready", 2)


def test_one_that_kills_every_worker_ends_failed(final, child):
    worker = child()
    FinalRun.objects.update(tries=3)
    assert (computed(final).state, worker.calls) == ("failed", [])
    assert "interrupted too often" in final.reason


def test_while_a_lease_holds_nobody_is_woken_for_it(final, worker, messages):
    later = Now() + timedelta(seconds=60)
    FinalRun.objects.update(lease=OTHER_LEASE, lease_expires_at=later, sent_at=None)
    messages.clear()
    sweep()
    assert messages == []


def test_a_lost_message_is_sent_again_no_more_than_there_are_free_slots(entered, worker, messages):
    for name in ("ada", "bob", "eve"):
        entered(name)
    FinalRun.objects.update(sent_at=None)
    messages.clear()
    send_unheard_final_runs(2)
    assert len(messages) == 2
    send_unheard_final_runs(2)
    assert len(messages) == 2  # those two are on their way
    send_unheard_final_runs(3)
    assert len(messages) == 3


def test_a_message_that_the_broker_did_not_take_is_sent_by_the_next_round(final, monkeypatch):
    FinalRun.objects.update(sent_at=None)
    monkeypatch.setattr("labs.dispatch.publish", lambda task, pk: False)
    send_unheard_final_runs(1)
    final.refresh_from_db()
    assert final.sent_at is None


def test_of_one_learner_one_is_computed_at_a_time_and_then_the_next(entered, graded, child, messages):
    entry = entered("ada")
    graded(entry.learner, number=2)
    add_missing_final_runs()
    first, second = entry.final_runs.order_by("pk")
    worker = child()
    FinalRun.objects.filter(pk=second.pk).update(
        lease=OTHER_LEASE, lease_expires_at=Now() + timedelta(seconds=60)
    )
    assert (computed(first).state, worker.calls) == ("waiting", [])
    FinalRun.objects.filter(pk=second.pk).update(lease=None, lease_expires_at=None)
    messages.clear()
    assert computed(first).state == "ready"
    assert messages == [("labs.compute_final_run", second.pk)]


def test_who_withdraws_while_it_is_computed_stops_the_worker(final, child, simulation):
    beats: list[bool] = []

    def call(kwargs: dict[str, Any], on_beat: Any) -> Any:
        withdraw(entry=final.entry)
        beats.append(on_beat(None))
        raise runner.JobStopped

    simulation(call)
    compute_final_run(final.pk)
    assert beats == [False]
    assert not FinalRun.objects.exists()


# Grades --------------------------------------------------------------------------------------------


def written_about_grades() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Run, TaskAttempt, Grade, GradeChange)]


OUTCOMES: list[Any] = [1.0, 9.0, float("nan"), CRASH, runner.JobTimedOut()]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=["better", "worse", "nan", "crash", "time out"])
def test_whatever_becomes_of_it_no_grade_run_or_attempt_is_touched(final, child, outcome):
    before = written_about_grades()
    assert before[2], "there is a grade to be touched"
    child(outcome)
    for _ in range(4):
        computed(final)
    assert written_about_grades() == before


def test_a_final_run_writes_to_its_own_table_alone(final, child):
    child()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        computed(final)
    written = [row["sql"] for row in queries if row["sql"].split()[0] in {"INSERT", "UPDATE", "DELETE"}]
    assert written and all(sql.startswith('UPDATE "labs_finalrun"') for sql in written)


def test_it_counts_in_no_limit_of_runs_and_no_list(final, settings, offering):
    settings.RUNS_ACTIVE_PER_LEARNER = 1
    learner = final.entry.learner
    assert not Run.objects.for_learner(learner).active().exists()
    submit_run(learner=learner, lab=final.run.lab, params={})
    assert Run.objects.for_learner(learner).count() == 2  # the graded one and this


def test_the_graded_run_finishes_even_if_the_board_is_broken(entered, graded, monkeypatch):
    entry = entered("ada")
    LabTask.objects.update(leaderboard_metric="gone")
    assert graded(entry.learner, number=2).state == Run.State.GRADED


def test_a_real_child_computes_the_same_score_for_the_same_settings_twice(entered, monkeypatch):
    """The real simulation, in the real supervised child."""
    entries = [entered(name, eplb=True, redundant_slots_per_gpu=1) for name in ("ada", "bob")]
    worse = entered("eve", eplb=False)
    monkeypatch.undo()  # the child that graded() has put in the place of the real one
    monkeypatch.setattr("labs.dispatch.publish", lambda task, pk: True)
    try:
        compute_all()
    finally:
        runner.shut_down()
    scores = [entry.final_runs.get().score for entry in (*entries, worse)]
    assert scores[0] == scores[1] and scores[0] < scores[2]
