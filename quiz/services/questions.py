"""Publishing: a draft becomes immutable, and an edit of what is published begins the next version."""

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from quiz.errors import Conflict, InvalidInput
from quiz.models import Option, Question, QuestionVersion


@transaction.atomic
def publish_question(*, version: QuestionVersion) -> QuestionVersion:
    """Freeze a draft and serve it from the next attempt on. InvalidInput points at what is missing."""
    lock_question(version.question_id)
    version.refresh_from_db()
    if version.is_published:
        raise Conflict(f"{version} is published already.")
    if errors := version_faults(version, list(version.options.order_by("key"))):
        raise InvalidInput(errors)
    # Something may have been published beside this draft, and the newest number is the one served.
    above = version.question.versions.exclude(pk=version.pk).aggregate(last=Max("number"))["last"] or 0
    version.number = max(version.number, above + 1)
    version.published_at = timezone.now()
    version.save()
    return version


@transaction.atomic
def start_draft(*, question: Question) -> QuestionVersion:
    """The question's draft: the one there is, or a copy of what is published now."""
    lock_question(question.pk)
    if draft := question.versions.filter(published_at__isnull=True).first():
        return draft
    current = question.current_version()
    if current is None:
        raise Conflict(f"{question} has no version to copy.")
    return copy_version(current, number=next_number(question))


def copy_version(version: QuestionVersion, *, number: int) -> QuestionVersion:
    options = list(version.options.order_by("key"))
    copy = QuestionVersion.objects.create(
        question=version.question,
        number=number,
        kind=version.kind,
        stem=version.stem,
        explanation=version.explanation,
        staff_points=version.staff_points,
    )
    Option.objects.bulk_create(
        Option(version=copy, key=o.key, text=o.text, correct=o.correct, feedback=o.feedback) for o in options
    )
    return copy


def lock_question(question_id: int) -> None:
    """Version numbers are handed out under this row."""
    Question.objects.select_for_update().get(pk=question_id)


def next_number(question: Question) -> int:
    return (question.versions.aggregate(last=Max("number"))["last"] or 0) + 1


def version_faults(version: QuestionVersion, options: list[Option]) -> list[tuple[str, str]]:
    """(pointer, sentence) for everything that keeps a version from being served."""
    faults = [
        (f"/{field}", "must not be empty")
        for field in ("stem", "explanation")
        if not getattr(version, field).strip()
    ]
    points = version.staff_points
    if not isinstance(points, list) or not all(isinstance(p, str) and p.strip() for p in points):
        faults.append(("/staff_points", "must be a list of sentences"))
    return faults + option_faults([(o.text, o.feedback, o.correct) for o in options])


def option_faults(options: list[tuple[str, str, bool]]) -> list[tuple[str, str]]:
    """options: (text, feedback, correct) in order; the same rules for the admin, the loader and publishing."""
    faults = []
    if len(options) < 2:
        faults.append(("/options", "a question needs at least two options"))
    if (right := sum(1 for _, _, correct in options if correct)) != 1:
        faults.append(("/options", f"exactly one option must be correct, not {right}"))
    for index, (text, feedback, _) in enumerate(options):
        if not text.strip():
            faults.append((f"/options/{index}/text", "must not be empty"))
        if not feedback.strip():
            faults.append((f"/options/{index}/feedback", "every option needs feedback"))
    return faults
