"""Grades: the best result counts, every change leaves an audit row, and what a person set stays."""

from dataclasses import dataclass
from decimal import Decimal

from django.db import transaction

from quiz import marking
from quiz.errors import InvalidInput
from quiz.models import Activity, Grade, GradeChange, Learner, Offering


@transaction.atomic
def record_grade(
    *,
    learner: Learner,
    offering: Offering,
    activity: Activity,
    score: Decimal | float | int | str,
    source: str,
    reason: str = "",
) -> Grade:
    """The grade after this result. ValueError where the score is none: NaN, or outside 0 to 1.

    A worse or equal result, and a grade that staff set by hand, leave it and its revision as they are.
    """
    exact = marking.exact_score(score)
    # The unique constraint decides between two first results; the loser reads the winner's row, locked.
    grade, created = Grade.objects.select_for_update().get_or_create(
        learner=learner, offering=offering, activity=activity, defaults={"score": exact}
    )
    if created:
        note_change(grade, old_score=None, source=source, reason=reason)
    elif not grade.manual and exact > grade.score:
        change_grade(grade, score=exact, source=source, reason=reason)
    return grade


@transaction.atomic
def set_manual_grade(
    *,
    learner: Learner,
    offering: Offering,
    activity: Activity,
    score: Decimal | float | int | str,
    reason: str,
    by: Learner,
) -> Grade:
    """Staff's word: it may lower a grade, needs a reason, and no later result changes it."""
    errors = [] if reason.strip() else [("/reason", "say why the grade is set by hand")]
    try:
        exact = marking.exact_score(score)
    except ValueError as exc:
        errors.append(("/score", str(exc)))
    if errors:
        raise InvalidInput(errors)
    source = f"set by {by.get_username()}"
    grade, created = Grade.objects.select_for_update().get_or_create(
        learner=learner, offering=offering, activity=activity, defaults={"score": exact, "manual": True}
    )
    if created:
        note_change(grade, old_score=None, source=source, reason=reason, by=by)
    elif not grade.manual or grade.score != exact:
        grade.manual = True
        change_grade(grade, score=exact, source=source, reason=reason, by=by)
    return grade


@transaction.atomic
def correct_grade(
    *, learner_id: int, offering_id: int, activity_id: int, score: Decimal, source: str, reason: str = ""
) -> bool:
    """What the results are worth under a mended rubric or key, also where that is less. Whether it changed.

    A grade that staff set by hand stays, and an equal one keeps its revision, so correcting twice changes nothing.
    """
    exact = marking.exact_score(score)
    grade, created = Grade.objects.select_for_update().get_or_create(
        learner_id=learner_id,
        offering_id=offering_id,
        activity_id=activity_id,
        defaults={"score": exact},
    )
    if created:
        note_change(grade, old_score=None, source=source, reason=reason)
        return True
    if grade.manual or grade.score == exact:
        return False
    change_grade(grade, score=exact, source=source, reason=reason)
    return True


def change_grade(
    grade: Grade, *, score: Decimal, source: str, reason: str, by: Learner | None = None
) -> None:
    old_score, grade.score = grade.score, score
    grade.revision += 1
    grade.save(update_fields=["score", "revision", "manual", "updated_at"])
    note_change(grade, old_score=old_score, source=source, reason=reason, by=by)


def note_change(
    grade: Grade, *, old_score: Decimal | None, source: str, reason: str, by: Learner | None = None
) -> None:
    GradeChange.objects.create(
        grade=grade,
        revision=grade.revision,
        old_score=old_score,
        new_score=grade.score,
        source=source,
        reason=reason,
        changed_by=by,
    )


@dataclass(frozen=True)
class ActivityProgress:
    activity: Activity
    grade: Grade | None


@dataclass(frozen=True)
class Progress:
    """How far somebody is in a class. An activity is done when it has a grade, also one of zero."""

    rows: list[ActivityProgress]

    @property
    def done(self) -> int:
        return sum(1 for row in self.rows if row.grade is not None)

    @property
    def total(self) -> int:
        return len(self.rows)

    @property
    def points(self) -> Decimal:
        return sum((row.grade.points for row in self.rows if row.grade is not None), Decimal("0.00"))

    @property
    def points_possible(self) -> Decimal:
        return sum((row.activity.points for row in self.rows), Decimal("0.00"))

    @property
    def text(self) -> str:
        return f"{self.done} / {self.total} done"


def progress_of(*, learner: Learner, offering: Offering) -> Progress:
    """Every activity of the class's course in order, with the learner's grade or None."""
    grades = {
        grade.activity_id: grade
        for grade in Grade.objects.filter(learner=learner, offering=offering).select_related("activity")
    }
    activities = offering.course.activities.order_by("position")
    return Progress([ActivityProgress(activity, grades.get(activity.pk)) for activity in activities])
