"""Nothing that gives an answer away leaves before submission: every response of the API is walked."""

import json

import pytest
from django.urls import reverse
from rest_framework.test import APIClient

from quiz import services
from quiz.models import Learner
from quiz.urls import urlpatterns
from tests.quiz.builders import SECRET, client_of

# Names that carry an answer. Null under them is a promise for later, anything else a leak.
TELLING = {
    *("correct", "correct_choice", "credit", "feedback", "feedback_html", "explanation", "explanation_html"),
    *("staff_points", "result", "calibration"),
}


def leaks(document, path=""):
    """Places of telling names with a value, and of marked texts."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in TELLING and value is not None:
                yield f"{path}/{name}"
            yield from leaks(value, f"{path}/{name}")
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from leaks(value, f"{path}/{index}")
    elif SECRET in str(document):
        yield path


def quiz_routes():
    return {str(pattern.name) for pattern in urlpatterns}


@pytest.fixture
def walk(api, quiz, offering, learner, settings):
    """Every response that a learner with an open attempt can get from the course's API, by method and route."""
    settings.STAFFLOOP_OPEN_REGISTRATION = True
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    services.save_response(attempt=attempt, position=1, choice="b", confidence=80, sequence=1)
    where = {
        "api-offering": [offering.slug],
        "api-enrollments": [offering.slug],
        "api-section": [offering.course.slug, "opening"],
        "api-quiz": [quiz.activity.slug],
        "api-attempts": [quiz.activity.slug],
        "api-attempt": [attempt.public_id],
        "api-response": [attempt.public_id, 1],
        "api-submission": [attempt.public_id],
    }
    names = {"username": "zoe", "password": "violet-turbine-41"}
    bodies = {
        "api-learners": names,
        "api-tokens": names,
        "api-response": {"choice": "a", "confidence": 10, "sequence": 2},
    }

    def walk(skip=()):
        answers = {}
        for name in sorted(quiz_routes() - set(skip)):
            path = reverse(name, args=where.get(name, []))
            for method in ("get", "put", "post", "patch", "options", "delete"):
                answers[f"{method} {name}"] = getattr(api, method)(path, bodies.get(name, {}), format="json")
        return answers

    return walk


def test_no_response_before_submission_gives_anything_away(walk):
    answers = walk(skip={"api-submission", "api-current-token"})
    assert answers["put api-response"].status_code == 200
    assert answers["get api-attempt"].json()["answered"] == 1
    for name, answer in answers.items():
        if answer.content:
            assert not list(leaks(json.loads(answer.content))), name


def test_the_walk_would_find_a_leak(walk):
    """The same walk through a submission: what it looks for is there."""
    answers = walk(skip={"api-current-token"})
    found = set(leaks(json.loads(answers["post api-submission"].content)))
    assert {"/questions/0/result", "/questions/0/result/feedback", "/questions/1/result"} <= found


def test_a_second_attempt_hides_again_what_the_first_one_has_shown(api, quiz):
    path = f"/api/v1/quizzes/{quiz.activity.slug}/"
    api.post(api.post(path + "attempts/")["Location"] + "submission/")
    assert not list(leaks(api.post(path + "attempts/").json()))
    assert not list(leaks(api.get(path).json()))


def test_problem_documents_give_nothing_away(api, quiz, learner, offering):
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    path = f"/api/v1/attempts/{attempt.public_id}/responses/1/"
    for body in ({"choice": "z", "sequence": 1}, {}, {"choice": "b", "sequence": -1}):
        assert not list(leaks(api.put(path, body, format="json").json()))


def test_the_schema_holds_no_text_of_any_question(quiz):
    staff = client_of(Learner.objects.create_superuser("root", password="x"))
    for client in (APIClient(), staff):
        text = client.get("/api/v1/schema/").content.decode()
        assert SECRET not in text
        assert "Which one?" not in text
