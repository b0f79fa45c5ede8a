"""A small course for tests. Every text that must stay hidden before submission carries the mark SECRET."""

from django.utils import timezone
from rest_framework.test import APIClient

from quiz.models import (
    Activity,
    Course,
    Enrollment,
    Learner,
    Offering,
    Option,
    Question,
    QuestionVersion,
    Quiz,
    QuizQuestion,
    Section,
)

SECRET = "hush"


def make_learner(name: str = "ada", **values) -> Learner:
    return Learner.objects.create_user(username=name, password="violet-turbine-41", **values)


def make_course(slug: str = "serving") -> Course:
    course = Course.objects.create(slug=slug, title="Serving", summary="About *serving*.")
    Section.objects.create(course=course, slug="opening", position=1, title="Opening", body="Some **text**.")
    return course


def make_offering(course: Course, slug: str = "open", **values) -> Offering:
    return Offering.objects.create(course=course, slug=slug, title=slug, self_enrolment=True, **values)


def make_quiz(course: Course, slug: str = "check", questions: int = 2, attempts_allowed: int = 2) -> Quiz:
    """`b` is right in every question."""
    activity = Activity.objects.create(
        course=course, kind="quiz", slug=slug, position=course.activities.count() + 1, title="Check", points=5
    )
    quiz = Quiz.objects.create(activity=activity, attempts_allowed=attempts_allowed)
    for position in range(1, questions + 1):
        question = Question.objects.create(slug=f"{slug}-q{position}", activity=activity)
        publish(question)
        QuizQuestion.objects.create(quiz=quiz, question=question, position=position)
    return quiz


def make_draft(question: Question, *, number: int = 1, stem: str = "Which one?") -> QuestionVersion:
    version = QuestionVersion.objects.create(
        question=question,
        number=number,
        stem=stem,
        explanation=f"{SECRET} explanation",
        staff_points=[f"{SECRET} point"],
    )
    for key in "abc":
        Option.objects.create(
            version=version,
            key=key,
            text=f"Option {key}",
            correct=key == "b",
            feedback=f"{SECRET} feedback {key}",
        )
    return version


def publish(question: Question, *, number: int = 1, stem: str = "Which one?") -> QuestionVersion:
    version = make_draft(question, number=number, stem=stem)
    version.published_at = timezone.now()
    version.save()
    return version


def enrolled(learner: Learner, offering: Offering) -> Learner:
    Enrollment.objects.create(learner=learner, offering=offering)
    return learner


def client_of(learner: Learner) -> APIClient:
    client = APIClient()
    client.force_authenticate(learner)
    return client
