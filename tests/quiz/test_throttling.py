"""Limits of requests: who is counted, what the headers say, and what happens at the limit."""

import pytest
from django.core.cache import cache
from redis.exceptions import ConnectionError as RedisIsDown

from quiz.api.throttling import count_request
from tests.quiz.builders import client_of, enrolled, make_learner


@pytest.fixture
def tight(settings):
    settings.THROTTLE_RATES = {**settings.THROTTLE_RATES, "learner": (2, 60), "submission": (1, 60)}


def test_every_answer_says_the_limit_and_what_is_left(api, tight):
    answer = api.get("/api/v1/me/")
    assert answer["RateLimit-Policy"] == '"learner";q=2;w=60'
    assert answer["RateLimit"] == '"learner";r=1;t=60'


def test_at_the_limit_a_request_is_refused_and_told_when_to_come_back(api, tight):
    answers = [api.get("/api/v1/me/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2]["Content-Type"] == "application/problem+json"
    assert 1 <= int(answers[2]["Retry-After"]) <= 61
    assert answers[2]["RateLimit"].startswith('"learner";r=0;t=')


def test_one_learner_at_the_limit_does_not_hold_up_another(api, offering, tight):
    for _ in range(3):
        api.get("/api/v1/me/")
    other = client_of(enrolled(make_learner("bo"), offering))
    assert other.get("/api/v1/me/").status_code == 200


def test_submissions_have_a_tighter_limit_of_their_own(api, quiz, tight):
    attempts = f"/api/v1/quizzes/{quiz.activity.slug}/attempts/"
    first = api.post(attempts)
    assert first["RateLimit-Policy"] == '"learner";q=2;w=60, "submission";q=1;w=60'
    assert (first.status_code, api.post(attempts).status_code) == (201, 429)


def test_reading_is_no_submission(api, quiz, tight):
    answer = api.get(f"/api/v1/quizzes/{quiz.activity.slug}/")
    assert '"submission"' not in answer["RateLimit-Policy"]


def test_an_unchanged_answer_carries_the_limits_too(api):
    first = api.get("/api/v1/me/")
    again = api.get("/api/v1/me/", HTTP_IF_NONE_MATCH=first["ETag"])
    assert again.status_code == 304
    assert again["RateLimit"].startswith('"learner";r=')


def test_requests_pass_uncounted_while_the_counter_is_down(api, monkeypatch):
    def fail(*args, **kwargs):
        raise RedisIsDown("refused")

    monkeypatch.setattr(cache, "get_or_set", fail)
    assert api.get("/api/v1/me/").status_code == 200


def test_a_window_that_has_ended_begins_anew(monkeypatch):
    cache.clear()
    now = 1_000_000.0
    monkeypatch.setattr("quiz.api.throttling.time.time", lambda: now)
    assert [count_request("k", 1)[0] for _ in range(2)] == [1, 2]
    cache.delete("k:window")  # what its time-out does
    now += 1.5
    assert count_request("k", 1) == (1, 1)


def test_answers_are_one_persons_and_checked_again(api):
    answer = api.get("/api/v1/me/")
    assert answer["Cache-Control"] == "private, no-cache"
    assert {"Authorization", "Cookie", "Accept"} <= set(answer["Vary"].split(", "))


def test_two_learners_never_share_an_etag_of_what_is_their_own(api, offering):
    other = client_of(enrolled(make_learner("bo"), offering))
    mine = api.get("/api/v1/me/")
    assert other.get("/api/v1/me/", HTTP_IF_NONE_MATCH=mine["ETag"]).status_code == 200


@pytest.mark.parametrize("token", ["\xff\xfe", "a\x00b", "é" * 8])
def test_a_token_that_is_no_text_is_a_bad_token(db, token):
    from rest_framework.test import APIClient

    answer = APIClient().get("/api/v1/me/", HTTP_AUTHORIZATION=f"Bearer {token}")
    assert answer.status_code == 401
