"""Bring a course that was read from files into the database; learners' rows are never touched.

A file that has not changed since it was last loaded is left alone, so that what an author edited in the admin stays.
"""

from collections.abc import Iterable
from string import ascii_lowercase
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from quiz.content import CourseContent, CourseFile, InvalidContent, QuestionFile, QuizEntry
from quiz.models import (
    Activity,
    Course,
    LoadedFile,
    Offering,
    Option,
    Question,
    QuestionVersion,
    Quiz,
    QuizQuestion,
)
from quiz.services.questions import lock_question, next_number

# Where rows wait while their places are given out anew.
ASIDE = 10_000


@transaction.atomic
def load_course(content: CourseContent, *, force: bool = False) -> list[str]:
    """All or nothing; a line for everything that changed. `force` loads unchanged files too."""
    changed = {path for path, digest in content.digests.items() if force or is_new(content, path, digest)}
    lines = []
    if "course.toml" in changed:
        lines += load_head(content.course)
    course = Course.objects.get(slug=content.course.slug)
    sections = {
        slug: s for slug, s in content.sections.items() if content.paths[f"section {slug}"] in changed
    }
    for slug, section in sections.items():
        # New sections wait aside until all places are given out below.
        place = {"position": ASIDE * 2 + len(lines)}
        values = {"title": section.title, "body": section.body}
        _, created = course.sections.update_or_create(
            slug=slug, defaults=values, create_defaults=values | place
        )
        lines.append(f"section {slug}: {'added' if created else 'replaced'}")
    if changed:
        put_in_order(course.sections.all(), list(content.sections))
    for slug, question in content.questions.items():
        if content.paths[f"question {slug}"] in changed:
            lines += load_question(slug, question)
    if "course.toml" in changed:
        for quiz in content.course.quizzes:
            load_quiz(quiz)
    for path in changed:
        LoadedFile.objects.update_or_create(
            name=f"{content.course.slug}/{path}", defaults={"digest": content.digests[path]}
        )
    return lines


def is_new(content: CourseContent, path: str, digest: str) -> bool:
    return not LoadedFile.objects.filter(name=f"{content.course.slug}/{path}", digest=digest).exists()


def load_head(file: CourseFile) -> list[str]:
    """Course, activities and offerings."""
    values = file.model_dump(include={"title", "summary", "level", "minutes"})
    course, created = Course.objects.update_or_create(slug=file.slug, defaults=values)
    for index, entry in enumerate(file.activities):
        refuse_other_activity(course, index, entry.slug, entry.kind)
        fields = {"title": entry.title, "points": entry.points, "kind": entry.kind}
        place = {"position": ASIDE * 2 + index}
        course.activities.update_or_create(slug=entry.slug, defaults=fields, create_defaults=fields | place)
    put_in_order(course.activities.all(), [entry.slug for entry in file.activities])
    for index, offering in enumerate(file.offerings):
        if Offering.objects.filter(slug=offering.slug).exclude(course=course).exists():
            raise InvalidContent([f"course.toml: offerings.{index}.slug: is a class of another course"])
        details = offering.model_dump(exclude={"slug"})
        Offering.objects.update_or_create(slug=offering.slug, defaults=details | {"course": course})
    return [f"course {file.slug}: {'added' if created else 'replaced'}"]


def refuse_other_activity(course: Course, index: int, slug: str, kind: str) -> None:
    """Grades hang on an activity: it neither moves to another course nor turns into something else."""
    found = Activity.objects.filter(slug=slug).first()
    if found is not None and (found.course_id, found.kind) != (course.pk, kind):
        raise InvalidContent(
            [
                f"course.toml: activities.{index}.slug: {slug} exists as a {found.get_kind_display()} of {found.course}"
            ]
        )


def put_in_order(rows: QuerySet[Any], slugs: list[str]) -> None:
    """Positions 1, 2 … by the order of slugs; rows that are not listed follow in the order they had."""
    found = list(rows.order_by("position"))
    rank = {slug: place for place, slug in enumerate(slugs)}
    wanted = sorted(found, key=lambda row: (rank.get(row.slug, len(slugs)), row.position))
    if [row.position for row in wanted] == list(range(1, len(wanted) + 1)):
        return
    # Aside first: a position is unique, and rows may change places.
    rows.update(position=F("position") + ASIDE)
    for place, row in enumerate(wanted, start=1):
        rows.filter(pk=row.pk).update(position=place)


def load_question(slug: str, file: QuestionFile) -> list[str]:
    """Publishes the next version where the wording differs from what is served; a draft is left alone."""
    activity = None if file.activity is None else Activity.objects.get(slug=file.activity)
    question, _ = Question.objects.update_or_create(slug=slug, defaults={"activity": activity})
    lock_question(question.pk)
    current = question.current_version()
    if current is not None and wording(current) == wording_of_file(file):
        return []
    version = QuestionVersion.objects.create(
        question=question,
        number=next_number(question),
        stem=file.stem,
        explanation=file.explanation,
        staff_points=file.staff_points,
        published_at=timezone.now(),
    )
    # In bulk, since a single save is refused once the version is published.
    Option.objects.bulk_create(Option(version=version, **values) for values in option_values(file))
    return [f"question {slug}: published version {version.number}"]


def option_values(file: QuestionFile) -> Iterable[dict[str, Any]]:
    for key, option in zip(ascii_lowercase, file.options, strict=False):
        yield {
            "key": key,
            "text": option.text.strip(),
            "feedback": option.feedback.strip(),
            "correct": option.correct,
        }


def wording(version: QuestionVersion) -> tuple[Any, ...]:
    options = list(version.options.order_by("key").values("key", "text", "feedback", "correct"))
    return version.stem, version.explanation, version.staff_points, options


def wording_of_file(file: QuestionFile) -> tuple[Any, ...]:
    return file.stem, file.explanation, file.staff_points, list(option_values(file))


def load_quiz(entry: QuizEntry) -> None:
    quiz, _ = Quiz.objects.update_or_create(
        activity=Activity.objects.get(slug=entry.activity),
        defaults={"attempts_allowed": entry.attempts_allowed},
    )
    if list(quiz.places.order_by("position").values_list("question__slug", flat=True)) == entry.questions:
        return
    # Attempts pin versions and positions of their own, so that nothing hangs on these rows.
    quiz.places.all().delete()
    questions = Question.objects.in_bulk(entry.questions, field_name="slug")
    QuizQuestion.objects.bulk_create(
        QuizQuestion(quiz=quiz, question=questions[slug], position=position)
        for position, slug in enumerate(entry.questions, start=1)
    )
