"""The OpenAPI description is complete, and its examples look like what the API answers."""

import pytest
from drf_spectacular.generators import SchemaGenerator

from quiz.api import examples

QUIZ_TAGS = {"people", "course", "quiz", "grades"}


@pytest.fixture(scope="module")
def operations():
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    found = [operation for methods in paths.values() for operation in methods.values()]
    return [operation for operation in found if QUIZ_TAGS & set(operation.get("tags", []))]


def test_every_operation_of_the_course_is_described(operations):
    assert len(operations) == 14
    for operation in operations:
        assert operation["summary"], operation["operationId"]


def test_every_operation_shows_an_example_of_its_answer(operations):
    for operation in operations:
        shown = operation["responses"].get("201") or operation["responses"].get("200")
        if shown is not None:
            assert "examples" in shown["content"]["application/json"], operation["operationId"]


def test_every_body_has_an_example(operations):
    for operation in operations:
        if "requestBody" in operation:
            content = operation["requestBody"]["content"]["application/json"]
            assert "examples" in content, operation["operationId"]


def test_every_operation_says_how_it_fails(operations):
    for operation in operations:
        failures = [answer for status, answer in operation["responses"].items() if status >= "400"]
        assert failures, operation["operationId"]
        for answer in failures:
            assert list(answer["content"]) == ["application/problem+json"]


def shape(value):
    """Names all the way down; of a list, its first item; of a leaf nothing."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return None


def test_the_examples_of_the_quiz_have_the_shape_of_real_answers(api, quiz):
    check = f"/api/v1/quizzes/{quiz.activity.slug}/"
    place = api.post(check + "attempts/")["Location"]
    answer = api.put(f"{place}responses/1/", examples.ANSWER_WRITE, format="json")
    assert shape(answer.json()) == shape(examples.ANSWER)
    assert shape(api.get(place).json()) == shape(examples.OPEN_ATTEMPT)
    assert shape(api.get(check).json()) == shape(examples.QUIZ)
    assert shape(api.post(f"{place}submission/").json()) == shape(examples.SUBMITTED_ATTEMPT)
    assert shape(api.get("/api/v1/grades/").json()["results"][0]) == shape(examples.GRADE)


def test_the_examples_of_the_course_have_the_shape_of_real_answers(api, quiz, offering):
    open_class = f"/api/v1/offerings/{offering.slug}/"
    assert shape(api.get("/api/v1/offerings/").json()["results"][0]) == shape(examples.OFFERING)
    assert shape(api.get(open_class).json()) == shape(examples.OFFERING_DETAIL)
    assert shape(api.post(open_class + "enrollments/").json()) == shape(examples.ENROLLMENT)
    section = api.get(f"/api/v1/courses/{offering.course.slug}/sections/opening/")
    assert shape(section.json()) == shape(examples.SECTION)
    assert shape(api.get("/api/v1/me/").json()) == shape(examples.LEARNER)
