"""Recorded traces over REST: handed in as a body or a form, polled, deleted, and nobody else's."""

import hashlib
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from labs import trace_storage
from labs.api.examples import traces as examples
from labs.models import Trace, TraceFile
from labs.traces import offer_trace
from simworkers.trace_summary import TraceSummary
from tests.labs.conftest import make_learner
from tests.labs.test_api import client_of, pointers
from tests.labs.test_examples import outline
from tests.labs.trace_files import SUMMARY, check_trace, held, names_in, ready, session, zipped

URL = "/api/v1/traces/"


@pytest.fixture
def api(learner: Any) -> Any:
    return client_of(learner)


def send(client: Any, data: bytes, media: str = "application/gzip", query: str = "", **more: Any) -> Any:
    return client.post(URL + query, data, content_type=media, **more)


@pytest.mark.parametrize("media", ["application/gzip", "application/x-ndjson", "application/octet-stream"])
def test_a_body_is_stored_as_it_was_sent_and_waits_for_its_check(api, media, stored):
    answer = send(api, zipped(session()), media, "?name=mine.jsonl.gz")
    assert (answer.status_code, answer["Retry-After"]) == (202, "1")
    body = answer.json()
    assert (body["name"], body["state"], body["bytes"]) == (
        "mine.jsonl.gz",
        "checking",
        len(zipped(session())),
    )
    assert body["sha256"] == hashlib.sha256(zipped(session())).hexdigest()
    (name,) = names_in(stored)
    assert (stored / name).read_bytes() == zipped(session())
    polled = api.get(answer["Location"])
    assert (polled.json(), polled["Retry-After"]) == (body, "1")


def test_a_form_is_stored_as_well(api):
    file = SimpleUploadedFile("form.jsonl", session(), "text/plain")
    assert api.post(URL, {"file": file}, format="multipart").json()["name"] == "form.jsonl"
    file.seek(0)
    other = SimpleUploadedFile("form.jsonl", session("other"))
    assert api.post(URL, {"file": other, "name": "Monday"}, format="multipart").json()["name"] == "Monday"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="a b.jsonl"', "a b.jsonl"),
        ("attachment; filename*=UTF-8''gr%C3%B6%C3%9Fer.gz", "größer.gz"),
        ("attachment; filename*=nonsense''x", "trace"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ("", "trace"),
    ],
)
def test_a_body_is_called_as_its_content_disposition_says(api, header, name):
    sent = send(api, session(), headers={"Content-Disposition": header} if header else {})
    assert sent.json()["name"] == name


def test_the_same_file_again_is_the_same_trace(api):
    first = send(api, session(), query="?name=a").json()
    again = send(api, session(), query="?name=b")
    assert (again.status_code, again.json()) == (202, first)
    TraceFile.objects.update(state="ready", summary=SUMMARY)
    assert send(api, session()).status_code == 200
    assert len(api.get(URL).json()["results"]) == 1


def test_a_file_that_was_checked_for_somebody_else_is_ready_at_once(api, offering):
    ready(make_learner("eve", offering), name="eves.jsonl")
    answer = send(api, session(), query="?name=mine")
    assert (answer.status_code, answer.json()["state"], answer.json()["name"]) == (201, "ready", "mine")
    assert "Retry-After" not in answer
    assert TraceFile.objects.count() == 1


@pytest.mark.parametrize("query", ["", "?name=x"])
def test_an_empty_body_is_refused(api, query, stored):
    answer = send(api, b"", query=query)
    assert (answer.status_code, answer.json()["detail"]) == (400, "body: is an empty file")
    assert names_in(stored) == []


def test_a_form_without_a_file_is_refused_by_its_field(api):
    answer = api.post(URL, {"name": "x"}, format="multipart")
    assert (answer.status_code, pointers(answer)) == (400, ["#/file"])


def test_a_file_over_the_limit_is_refused_while_it_comes_in(api, settings, stored):
    settings.TRACE_LIMIT_BYTES = 100
    answer = send(api, b"x" * 101)
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:staffloop:problem:body-too-large"
    form = api.post(URL, {"file": SimpleUploadedFile("a", b"x" * 101)}, format="multipart")
    assert form.status_code == 413
    assert (names_in(stored), Trace.objects.count()) == ([], 0)


def test_what_a_form_puts_around_its_file_stays_within_the_usual_limit(api, settings):
    form = {"file": SimpleUploadedFile("a", session()), "name": "x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE}
    assert api.post(URL, form, format="multipart").status_code == 413


def test_a_body_that_announces_too_much_is_refused_before_it_is_read(api, settings):
    settings.LONGER_BODIES = {URL: 100}
    assert send(api, b"x" * 101).status_code == 413
    assert send(api, session()[:100]).status_code == 202


def test_a_trace_may_be_longer_than_any_other_body(api, settings):
    data = b"x" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
    assert send(api, data).status_code == 202
    elsewhere = api.post("/api/v1/labs/moe-eplb/runs/", data, content_type="application/json")
    assert elsewhere.status_code == 413


def test_json_is_no_media_type_of_a_trace(api):
    assert api.post(URL, {"a": 1}, format="json").status_code == 415


def test_nobody_hands_in_without_an_account(client, db):
    assert client.post(URL, session(), content_type="application/gzip").status_code == 401


def test_only_ones_own_and_offered_traces_are_there(api, learner, offering):
    eve = make_learner("eve", offering)
    mine, hers = held(learner), held(eve, session("hers"), "hers")
    offered = offer_trace(file=held(eve, session("o")).file, name="for all")
    shown = api.get(URL).json()["results"]
    assert [row["name"] for row in shown] == ["for all", "mine.jsonl"]
    assert [row["offered"] for row in shown] == [True, False]
    assert api.get(f"{URL}{hers.public_id}/").status_code == 404
    assert api.delete(f"{URL}{hers.public_id}/").status_code == 404
    assert api.delete(f"{URL}{offered.public_id}/").status_code == 403
    assert api.delete(f"{URL}{mine.public_id}/").status_code == 204
    assert api.get(f"{URL}{mine.public_id}/").status_code == 404


def test_a_learner_has_room_for_so_many_traces_and_so_many_bytes(api, settings, stored):
    settings.TRACES_PER_LEARNER = 2
    assert [send(api, session(str(n))).status_code for n in range(3)] == [202, 202, 403]
    settings.TRACES_PER_LEARNER, settings.TRACE_BYTES_PER_LEARNER = 9, len(session()) * 3
    assert send(api, session("x" * 60)).json()["type"] == "urn:staffloop:problem:trace-quota-used"
    assert len(names_in(stored)) == 2
    api.delete(api.get(URL).json()["results"][0]["url"])
    assert send(api, session("2")).status_code == 202


@pytest.mark.parametrize(("allowed", "bytes_allowed"), [(1, 10**6), (0, 10**6), (9, 1)])
def test_a_file_that_is_held_is_answered_as_before_where_there_is_no_room_for_another(
    api, settings, stored, allowed, bytes_allowed
):
    first = send(api, session()).json()
    settings.TRACES_PER_LEARNER, settings.TRACE_BYTES_PER_LEARNER = allowed, bytes_allowed
    again = send(api, session())
    assert (again.status_code, again.json()) == (202, first)
    TraceFile.objects.update(state="ready", summary=SUMMARY)
    assert send(api, session()).status_code == 200
    assert send(api, session("another")).status_code == 403
    assert len(names_in(stored)) == 1


def test_a_file_for_which_there_is_no_room_is_never_stored(api, settings, stored, monkeypatch):
    settings.TRACES_PER_LEARNER = 0
    monkeypatch.setattr(trace_storage, "keep", lambda received: pytest.fail("it was stored"))
    assert send(api, session()).status_code == 403


def test_a_run_on_a_trace_that_is_being_checked_may_be_sent_again_with_its_key_once_it_is_ready(
    api, learner, traced
):
    digest = held(learner).file.digest

    def submit() -> Any:
        body, key = {"params": {"trace": digest}}, {"Idempotency-Key": "k-1"}
        return api.post(f"/api/v1/labs/{traced.slug}/runs/", body, format="json", headers=key)

    early = submit()
    assert (early.status_code, pointers(early)) == (409, ["#/params/trace"])
    assert early.json()["detail"] == "The trace is still being checked; wait until it is ready."
    ready(learner)
    assert submit().status_code == 202


def test_uploads_count_as_submissions(api, settings):
    settings.THROTTLE_RATES = {**settings.THROTTLE_RATES, "submission": (1, 60)}
    assert [send(api, session()).status_code for _ in range(2)] == [202, 429]


def test_the_examples_have_the_shape_of_real_answers(api, learner):
    sent = send(api, session() + b"nonsense\n")
    assert outline(sent.json()) == outline(examples.CHECKING_TRACE)
    check_trace(TraceFile.objects.get().pk)
    shown = api.get(sent["Location"])
    assert outline(shown.json()) == outline(examples.TRACE)
    assert "Retry-After" not in shown
    TraceSummary.model_validate(shown.json()["summary"], extra="forbid")
    for_runs = {"first_sessions", "read_s"}  # what is asked of a run before it is queued, and told nobody
    assert shown.json()["summary"].keys() == TraceSummary.model_fields.keys() - for_runs
    assert api.get(URL).json()["results"] == [shown.json()]
