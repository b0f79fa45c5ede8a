"""A mended rubric: every change is listed first, then exactly that is written, and what a person set stays."""

import io
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from labs.models import Run, TaskAttempt
from labs.regrading import CannotRegrade, apply_regrade, plan_regrade
from labs.services import open_attempt
from quiz.models import Grade, GradeChange, Learner
from quiz.services import set_manual_grade
from tests.labs.conftest import execute, make_learner, report_for
from tests.labs.test_services import submit


@pytest.fixture
def graded(attempt, simulation):
    """Grade another attempt of somebody with this max/mean: 2.0 is contiguous, 1.0 the floor."""

    def run_for(learner: Learner, reached: float, *, practice: bool = False) -> Run:
        another, _ = open_attempt(
            learner=learner, task=attempt.task, offering=attempt.offering, practice=practice
        )
        TaskAttempt.objects.filter(pk=another.pk).update(
            state=TaskAttempt.State.OPEN,
            instance=attempt.instance,
            visible={},
            engine_version=attempt.engine_version,
        )
        another.refresh_from_db()
        run = submit(another)
        simulation(report_for(run, max_over_mean_mean=reached))
        execute(run)
        run.refresh_from_db()
        return run

    return run_for


def mend(task: Any, **changes: dict[str, Any]) -> None:
    """Change fields of named criteria."""
    for criterion in task.rubric["criteria"]:
        criterion |= changes.get(criterion["name"], {})
    task.save()


def halve_the_prediction(task: Any) -> None:
    """Of 10 points 5 for the prediction instead of 0.5; half of the balance is then worth 7.5 of 10."""
    mend(task, prediction={"points": "5.00"}, balance={"points": "5.00"})


def regrade(task: Any, *arguments: str) -> str:
    out = io.StringIO()
    call_command("regrade", task.slug, *arguments, stdout=out)
    return out.getvalue()


def test_a_run_says_by_which_rubric_it_was_judged(graded, learner, task):
    assert graded(learner, 1.5).rubric_hash == task.parsed_rubric().fingerprint


def test_an_unchanged_rubric_changes_nothing(graded, learner, task):
    graded(learner, 1.5)
    assert plan_regrade(task).is_empty


def test_the_list_names_learner_attempt_scores_and_criteria_and_writes_nothing(graded, learner, task):
    run = graded(learner, 1.5)
    halve_the_prediction(task)
    said = regrade(task)
    assert "ada (open)  attempt 1  0.5250 → 0.7500" in said
    assert "prediction 0.5/0.5 → 5/5" in said and "balance 4.75/9.5 → 2.5/5" in said
    assert "ada (open)  grade 0.5250 → 0.7500" in said
    run.refresh_from_db()
    assert (run.score, Grade.objects.get().revision) == (Decimal("0.5250"), 1)


def test_applying_writes_sheet_score_grade_and_an_audit_row(graded, learner, task):
    run = graded(learner, 1.5)
    halve_the_prediction(task)
    regrade(task, "--apply", "--yes", "--reason", "the prediction was worth too little")
    run.refresh_from_db()
    assert (run.score, run.sheet["score"]) == (Decimal("0.7500"), "0.7500")
    assert run.rubric_hash == task.parsed_rubric().fingerprint
    grade = Grade.objects.get()
    assert (grade.score, grade.revision) == (Decimal("0.7500"), 2)
    change = GradeChange.objects.get(revision=2)
    assert change.source == f"regrade {task.slug} by rubric {run.rubric_hash}"
    assert (change.old_score, change.reason) == (Decimal("0.5250"), "the prediction was worth too little")


def test_the_grade_becomes_the_best_under_the_new_rubric_even_if_lower(graded, learner, task):
    graded(learner, 1.5)
    graded(learner, 1.9)
    mend(task, prediction={"points": "0"})
    regrade(task, "--apply", "--yes")
    # Of 9.5 points half for the first attempt, a tenth for the second.
    assert Grade.objects.get().score == Decimal("0.5000")


def test_another_attempt_may_become_the_best(graded, learner, task):
    graded(learner, 1.5)
    graded(learner, 1.9)
    mend(
        task,
        balance={
            "kind": "bands",
            "bands": [{"at_least": 1.9, "share": "1"}],
            "anchors": None,
        },
    )
    for criterion in task.rubric["criteria"]:
        if "anchors" in criterion and criterion["anchors"] is None:
            del criterion["anchors"]
    task.save()
    regrade(task, "--apply", "--yes")
    assert Grade.objects.get().score == Decimal("1.0000")


def test_a_second_regrade_changes_nothing(graded, learner, task):
    graded(learner, 1.5)
    halve_the_prediction(task)
    regrade(task, "--apply", "--yes")
    before = list(Run.objects.values()), list(Grade.objects.values()), GradeChange.objects.count()
    assert "0 grade(s) change" in regrade(task, "--apply", "--yes")
    assert (list(Run.objects.values()), list(Grade.objects.values()), GradeChange.objects.count()) == before


def test_a_grade_set_by_hand_is_listed_and_stays(graded, learner, task, offering):
    graded(learner, 1.5)
    set_manual_grade(
        learner=learner, offering=offering, activity=task.activity, score="0.9", reason="oral", by=learner
    )
    halve_the_prediction(task)
    said = regrade(task, "--apply", "--yes")
    assert "set by hand: stays 0.9000; the runs are worth 0.7500" in said
    grade = Grade.objects.get()
    assert (grade.score, grade.manual, grade.revision) == (Decimal("0.9000"), True, 2)
    assert Run.objects.get().score == Decimal("0.7500")


def test_practice_gets_a_new_sheet_and_no_grade(graded, learner, task):
    run = graded(learner, 1.5, practice=True)
    halve_the_prediction(task)
    assert "attempt 1, practice  0.5250 → 0.7500" in regrade(task, "--apply", "--yes")
    run.refresh_from_db()
    assert run.score == Decimal("0.7500")
    assert not Grade.objects.exists()


def test_mended_words_reach_the_sheets_and_leave_the_grades(graded, learner, task):
    run = graded(learner, 1.5)
    mend(task, balance={"feedback": "Look at the window."})
    assert "0 change their score, 1 only their sheet" in regrade(task, "--apply", "--yes")
    run.refresh_from_db()
    assert run.sheet["criteria"][2]["feedback"] == "Look at the window."
    assert Grade.objects.get().revision == 1


def test_a_run_that_cannot_be_judged_stops_everything_and_is_named(graded, learner, offering, task):
    graded(learner, 1.5)
    spoilt = graded(make_learner("grace", offering), 1.5)
    del spoilt.report["metrics"]["sampling_floor"]
    spoilt.save()
    halve_the_prediction(task)
    with pytest.raises(CommandError, match=f"run {spoilt.public_id}: the metric sampling_floor"):
        regrade(task, "--apply", "--yes")
    assert {row.score for row in Run.objects.all()} == {Decimal("0.5250")}
    assert not GradeChange.objects.filter(revision=2).exists()


def test_a_rubric_with_an_unknown_metric_is_refused_before_any_run_is_read(graded, learner, task):
    graded(learner, 1.5)
    mend(task, within_budget={"metric": "nonsense"})
    with pytest.raises(CommandError, match="no single-number metric 'nonsense'"):
        regrade(task)


def test_what_changed_since_the_list_was_made_is_not_written_over(graded, learner, offering, task):
    graded(learner, 1.5)
    halve_the_prediction(task)
    plan = plan_regrade(task)
    graded(make_learner("grace", offering), 1.1)
    set_manual_grade(
        learner=learner, offering=offering, activity=task.activity, score="0.9", reason="oral", by=learner
    )
    with pytest.raises(CannotRegrade, match="look again"):
        apply_regrade(task, plan, reason="")
    assert Run.objects.get(learner=learner).score == Decimal("0.5250")


def test_without_anyone_to_ask_nothing_is_applied(graded, learner, task):
    graded(learner, 1.5)
    halve_the_prediction(task)
    with pytest.raises(CommandError, match="say --yes"):
        regrade(task, "--apply")
    assert Grade.objects.get().revision == 1


@pytest.mark.parametrize(("answer", "revision"), [("y", 2), ("", 1)])
def test_a_person_is_asked_and_only_yes_applies(graded, learner, task, monkeypatch, answer, revision):
    graded(learner, 1.5)
    halve_the_prediction(task)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    if revision == 1:
        with pytest.raises(CommandError, match="nothing was changed"):
            regrade(task, "--apply")
    else:
        regrade(task, "--apply")
    assert Grade.objects.get().revision == revision


def test_an_unknown_task_is_refused_with_the_known_ones(task):
    with pytest.raises(CommandError, match=r"there are: .*moe-balance-hbm"):
        call_command("regrade", "no-such-task")
