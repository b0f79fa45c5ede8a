"""A POST that is sent again is answered as the first time, whatever happened in between."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from quiz import services
from quiz.errors import KeyInUse
from quiz.models import Attempt, Enrollment, KeyedAnswer
from tests.quiz.builders import client_of, enrolled, make_course, make_learner, make_offering, make_quiz

KEY: dict[str, Any] = {"HTTP_IDEMPOTENCY_KEY": "k-1"}


@pytest.fixture
def attempts(quiz) -> str:
    return f"/api/v1/quizzes/{quiz.activity.slug}/attempts/"


def problem(answer) -> str:
    assert answer["Content-Type"] == "application/problem+json"
    return answer.json()["type"].removeprefix("urn:staffloop:problem:")


def test_the_same_request_again_gets_the_first_answer_and_is_marked(api, attempts):
    first = api.post(attempts, {}, format="json", **KEY)
    again = api.post(attempts, {}, format="json", **KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.content, again["Location"]) == (first.content, first["Location"])
    assert "Idempotent-Replayed" not in first and again["Idempotent-Replayed"] == "true"
    assert again["Content-Type"] == first["Content-Type"]


def test_the_first_answer_stays_even_when_the_state_has_moved_on(api, attempts):
    place = api.post(attempts, {}, format="json", **KEY)["Location"]
    api.post(f"{place}submission/")
    assert api.post(attempts, {}, format="json", **KEY).json()["state"] == "open"
    assert Attempt.objects.count() == 1


def test_the_order_of_fields_and_blanks_does_not_make_another_body(api, attempts, offering):
    first = api.post(attempts, '{"offering":"open"}', content_type="application/json", **KEY)
    again = api.post(attempts, ' { "offering" : "open" } ', content_type="application/json", **KEY)
    assert (first.status_code, again.content) == (201, first.content)


def test_a_key_with_another_body_is_refused(api, attempts):
    api.post(attempts, {}, format="json", **KEY)
    again = api.post(attempts, {"offering": "open"}, format="json", **KEY)
    assert (again.status_code, problem(again)) == (422, "idempotency-key-reused")


def test_a_key_counts_for_one_path_only(api, attempts, offering):
    api.post(attempts, {}, format="json", **KEY)
    joined = api.post(f"/api/v1/offerings/{offering.slug}/enrollments/", {}, format="json", **KEY)
    assert "Idempotent-Replayed" not in joined


def test_a_key_counts_for_one_learner_only(api, attempts, offering):
    first = api.post(attempts, {}, format="json", **KEY)
    other = client_of(enrolled(make_learner("bo"), offering)).post(attempts, {}, format="json", **KEY)
    assert other.status_code == 201
    assert other.json()["public_id"] != first.json()["public_id"]


def test_a_refusal_of_the_request_is_kept(api, attempts):
    first = api.post(attempts, {"offering": "no-such"}, format="json", **KEY)
    again = api.post(attempts, {"offering": "no-such"}, format="json", **KEY)
    assert first.status_code == again.status_code == 403
    assert again["Idempotent-Replayed"] == "true"
    assert (again.json(), again["Content-Type"]) == (first.json(), "application/problem+json")


def test_a_crash_is_not_kept_and_leaves_nothing(api, attempts, monkeypatch):
    api.raise_request_exception = False
    real = services.keep_answer
    monkeypatch.setattr(services, "keep_answer", lambda **_: 1 / 0)
    assert api.post(attempts, {}, format="json", **KEY).status_code == 500
    assert not Attempt.objects.exists() and not KeyedAnswer.objects.exists()
    monkeypatch.setattr(services, "keep_answer", real)
    assert api.post(attempts, {}, format="json", **KEY).status_code == 201


def test_while_the_first_request_is_under_way_the_second_is_told_to_come_back(api, learner, attempts):
    services.claim_key(learner=learner, path=attempts, key="k-1", fingerprint=fingerprint({}))
    second = api.post(attempts, {}, format="json", **KEY)
    assert (second.status_code, problem(second)) == (409, "idempotency-key-in-use")
    assert second["Retry-After"] == "1"


def test_a_key_whose_request_died_is_taken_over_and_the_late_one_loses(api, learner, attempts):
    late = services.claim_key(learner=learner, path=attempts, key="k-1", fingerprint=fingerprint({}))
    KeyedAnswer.objects.update(lease_expires_at=timezone.now() - timedelta(seconds=1))
    assert api.post(attempts, {}, format="json", **KEY).status_code == 201
    with pytest.raises(KeyInUse):
        services.keep_answer(row=late, status=201, headers={}, body="{}")


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256, "tab\tbed"])
def test_a_key_that_is_no_visible_ascii_is_refused_by_name(api, attempts, key):
    answer = api.post(attempts, {}, format="json", HTTP_IDEMPOTENCY_KEY=key)
    assert (answer.status_code, problem(answer)) == (400, "invalid-header")
    assert "Idempotency-Key" in answer.json()["detail"]
    assert not Attempt.objects.exists()


def test_after_a_day_a_key_is_new_again(api, attempts):
    place = api.post(attempts, {}, format="json", **KEY)["Location"]
    api.post(f"{place}submission/")
    KeyedAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    later = api.post(attempts, {}, format="json", **KEY)
    assert "Idempotent-Replayed" not in later
    assert later.json()["number"] == 2


def test_old_answers_are_swept_and_young_ones_stay(api, attempts, offering):
    api.post(attempts, {}, format="json", **KEY)
    KeyedAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    api.post(attempts, {}, format="json", HTTP_IDEMPOTENCY_KEY="young")
    assert services.forget_old_answers() == 1
    assert KeyedAnswer.objects.count() == 1


def test_joining_a_class_can_be_repeated_with_a_key(quiz, offering):
    newcomer = client_of(make_learner("bo"))
    path = f"/api/v1/offerings/{offering.slug}/enrollments/"
    answers = [newcomer.post(path, **KEY) for _ in range(2)]
    # Without the key the second answer would be 200.
    assert [answer.status_code for answer in answers] == [201, 201]
    assert Enrollment.objects.filter(learner__username="bo").count() == 1


def fingerprint(body) -> str:
    from quiz.api.idempotency import fingerprint_of

    return fingerprint_of(body)


@pytest.mark.django_db(transaction=True)
def test_of_eight_equal_requests_at_once_one_is_carried_out():
    offering = make_offering(make_course())
    make_quiz(offering.course, attempts_allowed=5)
    learner = enrolled(make_learner(), offering)
    answers = []
    barrier = threading.Barrier(8)

    def send() -> None:
        client: APIClient = client_of(learner)
        barrier.wait()
        answers.append(client.post("/api/v1/quizzes/check/attempts/", {}, format="json", **KEY))
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    carried_out = [a for a in answers if a.status_code == 201 and "Idempotent-Replayed" not in a]
    replayed = [a for a in answers if a.status_code == 201 and "Idempotent-Replayed" in a]
    refused = [a for a in answers if a.status_code == 409]
    assert len(carried_out) == 1 and len(replayed) + len(refused) == 7
    assert all(a.content == carried_out[0].content for a in replayed)
    assert Attempt.objects.count() == 1
