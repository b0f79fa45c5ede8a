"""A course as files: TOML for data, Markdown with a TOML head for sections. Read and checked as a whole.

course.toml                 course, activities, quizzes, offerings
sections/01-opening.md      in the order of the file names; the slug is what follows the number
questions/SLUG.toml         options in order get the keys a, b, c …
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from quiz import storable
from quiz.services.questions import option_faults

Slug = Annotated[str, StringConstraints(pattern=r"^[-a-zA-Z0-9_]+$", max_length=50)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Title = Annotated[Text, StringConstraints(max_length=200)]
SECTION_NAME = re.compile(r"^\d+-(?P<slug>[-a-z0-9]+)\.md$")
HEAD = "+++\n"
Model = TypeVar("Model", bound=BaseModel)


class InvalidContent(ValueError):
    """What is wrong, a line each: `file: field: message`."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))


def dotted(pointer: str) -> str:
    """A JSON pointer as the name of a field: options.0.text"""
    return pointer.removeprefix("/").replace("/", ".") or "file"


class Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ActivityEntry(Entry):
    slug: Slug
    kind: Literal["quiz", "lab_task"]
    title: Title
    points: Decimal = Field(ge=0, max_digits=7, decimal_places=2)


class QuizEntry(Entry):
    activity: Slug
    attempts_allowed: int = Field(ge=1, le=100)
    questions: list[Slug] = Field(min_length=1)


class OfferingEntry(Entry):
    slug: Slug
    title: Title
    self_enrolment: bool = False
    opens_at: AwareDatetime | None = None
    closes_at: AwareDatetime | None = None


class CourseFile(Entry):
    slug: Slug
    title: Title
    summary: Text
    level: str = Field("", max_length=40)
    minutes: int = Field(0, ge=0, le=10_000)
    activities: list[ActivityEntry] = []
    quizzes: list[QuizEntry] = []
    offerings: list[OfferingEntry] = []


class SectionFile(Entry):
    title: Title
    body: Text


class OptionEntry(Entry):
    text: str
    feedback: str
    correct: bool = False


class QuestionFile(Entry):
    activity: Slug | None = None
    stem: Text
    explanation: Text
    staff_points: list[Text] = []
    options: list[OptionEntry] = Field(max_length=26)


class CourseContent(BaseModel):
    """Everything of one folder. `digests`: by path within the folder."""

    course: CourseFile
    sections: dict[str, SectionFile]
    questions: dict[str, QuestionFile]
    digests: dict[str, str]
    paths: dict[str, str]


def read_course(folder: Path) -> CourseContent:
    """The folder, checked. Raises InvalidContent with every fault that was found."""
    reader = Reader(folder)
    course = reader.read("course.toml", CourseFile, tomllib.loads)
    sections = {}
    for path in sorted((folder / "sections").glob("*")):
        name = f"sections/{path.name}"
        if matched := SECTION_NAME.match(path.name):
            section = reader.read(name, SectionFile, parse_section)
            if matched["slug"] in sections:
                reader.faults.append(f"{name}: slug: another section is called {matched['slug']}")
            elif section:
                sections[matched["slug"]] = section
                reader.paths[f"section {matched['slug']}"] = name
        else:
            reader.faults.append(f"{name}: name: must look like 01-opening.md")
    questions = {}
    for path in sorted((folder / "questions").glob("*.toml")):
        question = reader.read(f"questions/{path.name}", QuestionFile, tomllib.loads)
        if question:
            questions[path.stem] = question
            reader.paths[f"question {path.stem}"] = f"questions/{path.name}"
    if course is not None:
        reader.faults += [*course_faults(course, questions, reader), *question_faults(course, questions)]
    if reader.faults or course is None:
        raise InvalidContent(reader.faults)
    return CourseContent(
        course=course, sections=sections, questions=questions, digests=reader.digests, paths=reader.paths
    )


class Reader:
    """Reads files of one folder, and gathers what is wrong with them instead of stopping at the first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[str] = []
        self.digests: dict[str, str] = {}
        self.paths: dict[str, str] = {}

    def read(self, name: str, model: type[Model], parse: Callable[[str], dict[str, Any]]) -> Model | None:
        try:
            raw = (self.folder / name).read_bytes()
            parsed = parse(raw.decode())
            if found := [f"{name}: {dotted(pointer)}: {text}" for pointer, text in storable.faults(parsed)]:
                self.faults += found
                return None
            value = model.model_validate(parsed)
        except ValidationError as exc:
            self.faults += [f"{name}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors()]
            return None
        except (OSError, ValueError, RecursionError) as exc:
            self.faults.append(f"{name}: file: {getattr(exc, 'strerror', None) or exc}")
            return None
        self.digests[name] = hashlib.sha256(raw).hexdigest()
        return value


def parse_section(text: str) -> dict[str, Any]:
    """A TOML head between two lines of `+++`, then Markdown."""
    if not text.startswith(HEAD) or text.count(HEAD) < 2:
        raise ValueError("must begin with a head between two lines of +++")
    head, body = text.removeprefix(HEAD).split(HEAD, 1)
    return {**tomllib.loads(head), "body": body}


def course_faults(course: CourseFile, questions: dict[str, QuestionFile], reader: Reader) -> Iterator[str]:
    """Names that point nowhere, and names given twice."""
    kinds = {activity.slug: activity.kind for activity in course.activities}
    for field, slugs in (
        ("activities", [a.slug for a in course.activities]),
        ("offerings", [o.slug for o in course.offerings]),
        ("quizzes", [q.activity for q in course.quizzes]),
    ):
        for slug in sorted({slug for slug in slugs if slugs.count(slug) > 1}):
            yield f"course.toml: {field}: {slug} is there twice"
    for index, quiz in enumerate(course.quizzes):
        place = f"course.toml: quizzes.{index}"
        if kinds.get(quiz.activity) != "quiz":
            yield f"{place}.activity: {quiz.activity} is no activity of the kind quiz"
        for number, slug in enumerate(quiz.questions):
            if slug in quiz.questions[:number]:
                yield f"{place}.questions.{number}: {slug} is there twice"
            elif slug not in questions and not (reader.folder / "questions" / f"{slug}.toml").exists():
                yield f"{place}.questions.{number}: there is no questions/{slug}.toml"
    for index, offering in enumerate(course.offerings):
        if offering.opens_at and offering.closes_at and offering.opens_at >= offering.closes_at:
            yield f"course.toml: offerings.{index}.closes_at: must be after opens_at"


def question_faults(course: CourseFile, questions: dict[str, QuestionFile]) -> Iterator[str]:
    used = {slug for quiz in course.quizzes for slug in quiz.questions}
    activities = {activity.slug for activity in course.activities}
    for slug, question in questions.items():
        name = f"questions/{slug}.toml"
        if slug not in used:
            yield f"{name}: file: no quiz in course.toml asks this question"
        if question.activity is not None and question.activity not in activities:
            yield f"{name}: activity: there is no activity {question.activity} in course.toml"
        for pointer, text in option_faults([(o.text, o.feedback, o.correct) for o in question.options]):
            yield f"{name}: {dotted(pointer)}: {text}"
