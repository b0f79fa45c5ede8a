"""Judging stored reports by a task's present rubric: first a list of every change, then exactly those changes.

Nothing is computed again. The grade becomes the best of the graded attempts under the present rubric, also where
that is less than before; what staff set by hand stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from pydantic import ValidationError

from labs import rubric
from labs.criteria import Unmeasured
from labs.models import LabTask, Run
from quiz.models import Grade
from quiz.services import correct_grade

# Runs whose reports are in memory at once; a report may have 2 MiB.
CHUNK = 20


class CannotRegrade(Exception):
    """Nothing was written. `problems` has one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


@dataclass(frozen=True)
class RunChange:
    """A run that is judged differently. `criteria` says in words which criteria changed, and how."""

    run_id: int
    public_id: str
    learner: str
    offering: str
    attempt: int
    practice: bool
    old_score: Decimal | None
    new_score: Decimal
    criteria: tuple[str, ...]
    sheet: dict[str, Any]


@dataclass(frozen=True)
class GradeLine:
    """A learner's grade in a class beside what the runs are worth now."""

    learner_id: int
    learner: str
    offering_id: int
    offering: str
    old_score: Decimal | None
    new_score: Decimal


@dataclass(frozen=True)
class Plan:
    """What a regrade would do. Two plans are equal where they would do the same."""

    rubric_hash: str
    runs_seen: int
    reports_removed: int  # of them; these keep the score that they have
    runs: tuple[RunChange, ...]
    grades: tuple[GradeLine, ...]
    manual: tuple[GradeLine, ...]  # differ from the runs' worth and stay, because a person set them

    @property
    def is_empty(self) -> bool:
        return not self.runs and not self.grades


def plan_regrade(task: LabTask) -> Plan:
    """Every change that the present rubric makes. Raises CannotRegrade, naming each run that cannot be judged."""
    criteria = usable_rubric(task)
    changes: list[RunChange] = []
    failing: list[str] = []
    best: dict[tuple[int, int], tuple[Run, Decimal]] = {}
    seen = removed = 0
    for run in graded_runs(task).iterator(chunk_size=CHUNK):
        seen += 1
        try:
            change, score = judge_again(run, criteria)
        except Unmeasured as exc:
            failing.append(f"run {run.public_id}: {exc}")
            continue
        if change:
            changes.append(change)
        removed += run.report is None
        attempt = run.task_attempt
        assert attempt is not None
        whose = (run.learner_id, attempt.offering_id)
        if not attempt.practice and (whose not in best or score > best[whose][1]):
            best[whose] = (run, score)
    if failing:
        raise CannotRegrade(failing)
    grades, manual = grade_lines(task, best)
    return Plan(criteria.fingerprint, seen, removed, tuple(changes), grades, manual)


def judge_again(run: Run, criteria: rubric.Rubric) -> tuple[RunChange | None, Decimal]:
    """(what changes, the score that it is worth now). A run whose report was removed keeps its score."""
    if run.report is None:
        assert run.score is not None
        return None, run.score
    sheet = rubric.grade(run.report["metrics"], criteria, prediction=run.prediction)
    return change_of(run, sheet, criteria.fingerprint), sheet.score


def usable_rubric(task: LabTask) -> rubric.Rubric:
    try:
        criteria = task.parsed_rubric()
    except ValidationError as exc:
        raise CannotRegrade([f"the rubric of {task.slug} is invalid: {exc}"]) from exc
    if unknown := rubric.unknown_names(criteria, task.lab.job, task.task_kind):
        raise CannotRegrade(unknown)
    return criteria


def graded_runs(task: LabTask) -> QuerySet[Run]:
    return (
        Run.objects.filter(task_attempt__task=task, state=Run.State.GRADED)
        .select_related("task_attempt__offering", "learner")
        .defer("provenance")
        .order_by("learner__username", "task_attempt__practice", "task_attempt__number", "pk")
    )


def change_of(run: Run, sheet: rubric.Sheet, rubric_hash: str) -> RunChange | None:
    """None where the run is judged already as the rubric judges it."""
    old = stored_sheet(run)
    if old == sheet and run.score == sheet.score and run.rubric_hash == rubric_hash:
        return None
    attempt = run.task_attempt
    assert attempt is not None
    return RunChange(
        run_id=run.pk,
        public_id=str(run.public_id),
        learner=run.learner.get_username(),
        offering=attempt.offering.slug,
        attempt=attempt.number,
        practice=attempt.practice,
        old_score=run.score,
        new_score=sheet.score,
        criteria=tuple(criteria_changes(old, sheet)),
        sheet=sheet.model_dump(mode="json"),
    )


def stored_sheet(run: Run) -> rubric.Sheet | None:
    """As a Sheet, because a database may hand back 2.0 as 2. None where its shape is an older one."""
    try:
        return rubric.Sheet.model_validate(run.sheet)
    except ValidationError:
        return None


def criteria_changes(old: rubric.Sheet | None, new: rubric.Sheet) -> Iterator[str]:
    before = {row.name: row for row in old.criteria} if old else {}
    after = {row.name: row for row in new.criteria}
    for name in [*before, *(name for name in after if name not in before)]:
        was, is_ = before.get(name), after.get(name)
        if was is None or is_ is None or (was.earned, was.points) != (is_.earned, is_.points):
            yield f"{name} {earned(was)} → {earned(is_)}"
        elif was != is_:
            yield f"{name}: same points, other words or values"


def earned(row: rubric.Judged | None) -> str:
    return f"{row.earned.normalize():f}/{row.points.normalize():f}" if row else "none"


def grade_lines(
    task: LabTask, best: dict[tuple[int, int], tuple[Run, Decimal]]
) -> tuple[tuple[GradeLine, ...], tuple[GradeLine, ...]]:
    """Grades that change, and grades set by hand that differ and stay."""
    present = {
        (grade.learner_id, grade.offering_id): grade
        for grade in Grade.objects.filter(activity_id=task.activity_id)
    }
    changing: list[GradeLine] = []
    manual: list[GradeLine] = []
    for whose, (run, score) in best.items():
        grade = present.get(whose)
        if grade is not None and grade.score == score:
            continue
        assert run.task_attempt is not None
        line = GradeLine(
            learner_id=run.learner_id,
            learner=run.learner.get_username(),
            offering_id=run.task_attempt.offering_id,
            offering=run.task_attempt.offering.slug,
            old_score=grade.score if grade else None,
            new_score=score,
        )
        (manual if grade is not None and grade.manual else changing).append(line)
    return tuple(changing), tuple(manual)


@transaction.atomic
def apply_regrade(task: LabTask, plan: Plan, *, reason: str) -> None:
    """Do what the plan says, all of it or nothing. CannotRegrade where the plan is no longer what would be done."""
    # Locked in one order, so that a worker that records a grade meanwhile comes before or after, not between.
    list(Grade.objects.select_for_update().filter(activity_id=task.activity_id).order_by("pk"))
    task = LabTask.objects.select_related("activity", "lab").get(pk=task.pk)
    if plan_regrade(task) != plan:
        raise CannotRegrade(["runs, grades or the rubric have changed since the list was made; look again"])
    for change in plan.runs:
        Run.objects.filter(pk=change.run_id).update(
            sheet=change.sheet, score=change.new_score, rubric_hash=plan.rubric_hash
        )
    for line in plan.grades:
        correct_grade(
            learner_id=line.learner_id,
            offering_id=line.offering_id,
            activity_id=task.activity_id,
            score=line.new_score,
            source=f"regrade {task.slug} by rubric {plan.rubric_hash}",
            reason=reason,
        )
