import pytest

from quiz import services
from quiz.models import Attempt
from tests.quiz.builders import client_of, enrolled, make_learner, make_offering


@pytest.fixture
def attempt(api, quiz) -> str:
    """Path of an open attempt."""
    answer = api.post(f"/api/v1/quizzes/{quiz.activity.slug}/attempts/")
    assert answer.status_code == 201
    assert answer["Location"] == f"/api/v1/attempts/{answer.json()['public_id']}/"
    return str(answer["Location"])


def put(api, attempt, position=1, **body):
    return api.put(f"{attempt}responses/{position}/", {"choice": "b", "sequence": 1} | body, format="json")


def test_a_learner_starts_answers_and_submits(api, attempt, quiz):
    put(api, attempt, 1, choice="b", confidence=90)
    put(api, attempt, 2, choice="a", confidence=90)
    result = api.post(f"{attempt}submission/").json()
    first, second = result["questions"]
    assert (result["state"], result["score"]) == ("submitted", "0.5000")
    assert (first["result"]["correct"], second["result"]["correct"]) == (True, False)
    assert second["result"]["feedback"].endswith("feedback a")
    assert second["result"]["explanation"]
    assert second["result"]["staff_points"]
    assert second["result"]["activity"]["slug"] == quiz.activity.slug
    assert (result["calibration"]["mean_confidence"], result["calibration"]["percent_correct"]) == (90, 50)
    assert api.get("/api/v1/grades/").json()["results"][0]["points"] == "2.50"


def test_the_attempt_counts_what_is_answered(api, attempt):
    assert api.get(attempt).json()["answered_text"] == "0 / 2 answered"
    put(api, attempt, 2)
    shown = api.get(attempt).json()
    assert (shown["answered"], shown["total"], shown["answered_text"]) == (1, 2, "1 / 2 answered")
    assert shown["questions"][1]["response"]["choice"] == "b"


def test_a_question_without_an_answer_gets_no_feedback_and_no_credit(api, attempt):
    result = api.post(f"{attempt}submission/").json()["questions"][0]["result"]
    assert (result["correct"], result["feedback"]) == (False, "")


def test_starting_again_returns_the_open_attempt(api, attempt, quiz):
    again = api.post(f"/api/v1/quizzes/{quiz.activity.slug}/attempts/")
    assert (again.status_code, again["Location"]) == (200, attempt)


def test_used_up_attempts_are_refused_with_a_problem_document(api, quiz):
    quiz.attempts_allowed = 1
    quiz.save()
    path = f"/api/v1/quizzes/{quiz.activity.slug}/"
    api.post(api.post(path + "attempts/")["Location"] + "submission/")
    answer = api.post(path + "attempts/")
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:staffloop:problem:attempts-used-up")
    assert [row["state"] for row in api.get(path).json()["attempts"]] == ["submitted"]


def test_a_stale_write_is_409_with_a_pointer_and_changes_nothing(api, attempt):
    put(api, attempt, choice="b", sequence=2)
    answer = put(api, attempt, choice="a", sequence=1)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (409, "#/sequence")
    assert api.get(attempt).json()["questions"][0]["response"]["choice"] == "b"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"choice": "z"}, "#/choice"),
        ({"choice": "ab"}, "#/choice"),
        ({"choice": None}, "#/choice"),
        ({"confidence": 101}, "#/confidence"),
        ({"confidence": -1}, "#/confidence"),
        ({"confidence": "high"}, "#/confidence"),
        ({"sequence": 0}, "#/sequence"),
        ({"sequence": 2**31}, "#/sequence"),
        ({"sequence": None}, "#/sequence"),
    ],
)
def test_a_bad_answer_names_its_field_and_is_not_stored(api, attempt, body, pointer):
    answer = put(api, attempt, **body)
    assert (answer.status_code, [row["pointer"] for row in answer.json()["errors"]]) == (400, [pointer])
    assert api.get(attempt).json()["questions"][0]["response"]["sequence"] == 0


def test_an_answer_without_its_fields_names_each(api, attempt):
    answer = api.put(f"{attempt}responses/1/", {}, format="json")
    assert {row["pointer"] for row in answer.json()["errors"]} == {"#/choice", "#/sequence"}


def test_infinity_in_a_body_is_refused_at_its_field(api, attempt):
    body = '{"choice": "b", "sequence": 1, "confidence": 1e999}'
    answer = api.put(f"{attempt}responses/1/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "#/confidence")


def test_a_body_that_is_no_object_is_refused(api, attempt):
    assert api.put(f"{attempt}responses/1/", [1], format="json").status_code == 400


def test_another_content_type_is_415(api, attempt):
    answer = api.put(f"{attempt}responses/1/", "choice=b", content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 415


def test_an_answer_after_submission_is_409(api, attempt):
    api.post(f"{attempt}submission/")
    assert put(api, attempt).status_code == 409


def test_submitting_twice_returns_the_same_result(api, attempt):
    assert api.post(f"{attempt}submission/").json() == api.post(f"{attempt}submission/").json()


def test_a_position_that_was_not_served_is_404(api, attempt):
    assert put(api, attempt, 9).status_code == 404


@pytest.mark.parametrize("is_staff", [False, True])
def test_somebody_elses_attempt_is_404_and_stays_untouched(attempt, offering, is_staff):
    other = client_of(enrolled(make_learner("eve", is_staff=is_staff), offering))
    answers = [other.get(attempt), put(other, attempt), other.post(f"{attempt}submission/")]
    assert [answer.status_code for answer in answers] == [404] * 3
    assert Attempt.objects.get().state == "open"
    assert Attempt.objects.get().responses.get(position=1).sequence == 0


def test_those_in_no_class_cannot_start(quiz):
    answer = client_of(make_learner("bo")).post(f"/api/v1/quizzes/{quiz.activity.slug}/attempts/")
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:staffloop:problem:not-enrolled")


def test_those_in_two_classes_name_the_one_that_counts(api, learner, quiz):
    second = make_offering(quiz.activity.course, "evening")
    services.enroll(learner=learner, offering=second)
    path = f"/api/v1/quizzes/{quiz.activity.slug}/attempts/"
    unsaid = api.post(path, {}, format="json")
    assert (unsaid.status_code, unsaid.json()["errors"][0]["pointer"]) == (400, "#/offering")
    assert api.post(path, {"offering": "evening"}, format="json").json()["offering"] == "evening"
    elsewhere = api.post(path, {"offering": "nowhere"}, format="json")
    assert (elsewhere.status_code, elsewhere.json()["errors"][0]["pointer"]) == (403, "#/offering")


def test_reading_an_attempt_takes_few_queries_whatever_its_length(
    api, attempt, django_assert_max_num_queries
):
    with django_assert_max_num_queries(6):
        api.get(attempt)


@pytest.mark.parametrize("value", [True, "1", 1.0])
@pytest.mark.parametrize("field", ["sequence", "confidence"])
def test_a_number_of_another_json_type_is_refused_at_its_field(api, attempt, field, value):
    answer = put(api, attempt, **{field: value})
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"#/{field}"]
