import pytest
from rest_framework.test import APIClient

from quiz.models import Learner
from tests.quiz.builders import make_learner

pytestmark = pytest.mark.django_db
ADA = {"username": "ada", "password": "violet-turbine-41"}


@pytest.fixture
def anyone(settings) -> APIClient:
    settings.STAFFLOOP_OPEN_REGISTRATION = True
    return APIClient()


def pointers(answer):
    return [row["pointer"] for row in answer.json()["errors"]]


def test_somebody_registers_signs_in_and_signs_out(anyone):
    made = anyone.post("/api/v1/learners/", ADA, format="json")
    assert made.status_code == 201
    signed_in = anyone.post("/api/v1/tokens/", ADA, format="json")
    assert signed_in.status_code == 201
    anyone.credentials(HTTP_AUTHORIZATION=f"Bearer {signed_in.json()['token']}")
    assert anyone.get("/api/v1/me/").json() == made.json()
    assert anyone.delete("/api/v1/tokens/current/").status_code == 204
    assert anyone.get("/api/v1/me/").status_code == 401


def test_registration_may_be_closed(anyone, settings):
    settings.STAFFLOOP_OPEN_REGISTRATION = False
    answer = anyone.post("/api/v1/learners/", ADA, format="json")
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:staffloop:problem:closed")
    assert not Learner.objects.exists()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, ["#/username", "#/password"]),
        ({**ADA, "username": "a b"}, ["#/username"]),
        ({**ADA, "username": "ADA"}, ["#/username"]),
        ({"username": "bo", "password": "12345678"}, ["#/password", "#/password"]),
        ({"username": "violet-turbine", "password": "violet-turbine"}, ["#/password"]),
    ],
)
def test_a_bad_registration_names_its_fields(anyone, body, expected):
    make_learner("ada")
    answer = anyone.post("/api/v1/learners/", body, format="json")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert pointers(answer) == expected
    assert Learner.objects.count() == 1


def test_registration_is_throttled_and_says_when_to_come_back(anyone, settings):
    settings.THROTTLE_RATES = {**settings.THROTTLE_RATES, "register": (1, 3600)}
    anyone.post("/api/v1/learners/", ADA, format="json")
    answer = anyone.post("/api/v1/learners/", {**ADA, "username": "bo"}, format="json")
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0


def test_a_wrong_password_is_401_and_says_nothing_about_the_name(anyone):
    make_learner("ada")
    wrong = anyone.post("/api/v1/tokens/", {**ADA, "password": "no"}, format="json")
    unknown = anyone.post("/api/v1/tokens/", {**ADA, "username": "nobody"}, format="json")
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json() == unknown.json()


def test_guessing_one_password_is_slowed_down_and_others_are_not(anyone):
    make_learner("ada")
    make_learner("bo")
    codes = [
        anyone.post("/api/v1/tokens/", {**ADA, "password": str(n)}, format="json").status_code
        for n in range(31)
    ]
    assert codes == [401] * 30 + [429]
    assert anyone.post("/api/v1/tokens/", {**ADA, "username": "bo"}, format="json").status_code == 201


def test_an_inactive_account_gets_no_token(anyone):
    make_learner("ada", is_active=False)
    assert anyone.post("/api/v1/tokens/", ADA, format="json").status_code == 401


def test_above_the_limit_the_oldest_token_goes(anyone):
    make_learner("ada")
    tokens = [anyone.post("/api/v1/tokens/", ADA, format="json").json()["token"] for _ in range(21)]

    def status(token):
        return anyone.get("/api/v1/me/", HTTP_AUTHORIZATION=f"Bearer {token}").status_code

    assert (status(tokens[0]), status(tokens[1]), status(tokens[20])) == (401, 200, 200)


@pytest.mark.parametrize("header", [{}, {"HTTP_AUTHORIZATION": "Bearer not-a-token"}])
@pytest.mark.parametrize(
    "path", ["me/", "offerings/", "offerings/open/", "courses/c/sections/s/", "quizzes/check/", "grades/"]
)
def test_without_a_good_token_every_page_is_401_with_a_problem_document(anyone, path, header):
    answer = anyone.get(f"/api/v1/{path}", **header)
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert answer.json()["type"] == "urn:staffloop:problem:not-authenticated"
