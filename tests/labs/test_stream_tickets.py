"""Who is let into a run's event stream: one-use tickets, and limits."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from labs.models import Lab, Run, StreamTicket
from labs.streaming.api import open_streams
from labs.streaming.tickets import forget_old_tickets
from tests.labs.conftest import make_learner
from tests.labs.streams import open_stream, problem, ticket_for
from tests.labs.test_api import client_of


@pytest.fixture
def run(lab: Lab, learner: Any) -> Run:
    return Run.objects.create(lab=lab, learner=learner, params={}, seed=0, state=Run.State.CANCELLED)


@pytest.fixture
def place(run: Run) -> str:
    return f"/api/v1/runs/{run.public_id}/"


def test_a_ticket_opens_the_stream_of_its_run(place, learner):
    response, events = open_stream(place, f"ticket={ticket_for(place, learner)}")
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-store"
    assert [event["data"]["state"] for event in events] == ["queued", "cancelled"]


def test_the_answer_to_a_ticket_names_the_stream(place, learner):
    answer = client_of(learner).post(f"{place}stream-tickets/")
    assert answer["Cache-Control"] == "no-store"
    assert answer.json()["events_url"].endswith(f"{place}events/?ticket={answer.json()['ticket']}")


def test_a_ticket_is_not_stored_as_it_is(place, learner):
    secret = ticket_for(place, learner)
    assert secret not in str(StreamTicket.objects.values().get())


def test_a_ticket_is_good_once(place, learner):
    query = f"ticket={ticket_for(place, learner)}"
    open_stream(place, query)
    response, _ = open_stream(place, query)
    assert problem(response) == (401, "invalid-ticket")
    assert "used before" in response.json()["detail"]
    assert response["WWW-Authenticate"] == "Ticket"


def test_a_ticket_expires_after_a_minute(place, learner):
    secret = ticket_for(place, learner)
    life = StreamTicket.objects.get().expires_at - timezone.now()
    assert timedelta(seconds=50) < life <= timedelta(seconds=60)
    StreamTicket.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    response, _ = open_stream(place, f"ticket={secret}")
    assert problem(response) == (401, "invalid-ticket")
    assert "expired" in response.json()["detail"]


@pytest.mark.parametrize("query", ["", "ticket=", "ticket=forged", "ticket=" + "x" * 500])
def test_a_forged_or_missing_ticket_is_401(place, query):
    assert problem(open_stream(place, query)[0]) == (401, "invalid-ticket")


def test_a_ticket_for_another_run_of_mine_is_403_and_still_good(place, run, learner):
    other = Run.objects.create(lab=run.lab, learner=learner, params={}, seed=0)
    secret = ticket_for(place, learner)
    response, _ = open_stream(f"/api/v1/runs/{other.public_id}/", f"ticket={secret}")
    assert problem(response) == (403, "ticket-of-another-run")
    assert open_stream(place, f"ticket={secret}")[0].status_code == 200


def test_a_ticket_does_not_tell_whether_somebody_elses_run_exists(place, run, learner, offering):
    eve = make_learner("eve", offering)
    hers = Run.objects.create(lab=run.lab, learner=eve, params={}, seed=0)
    query = f"ticket={ticket_for(f'/api/v1/runs/{hers.public_id}/', eve)}"
    there, _ = open_stream(place, query)
    nowhere, _ = open_stream("/api/v1/runs/00000000-0000-4000-8000-000000000000/", query)
    assert problem(there) == problem(nowhere) == (404, "not-found")
    assert there.json() == nowhere.json()


def test_nobody_gets_a_ticket_for_somebody_elses_run(place, offering):
    assert client_of(make_learner("eve", offering)).post(f"{place}stream-tickets/").status_code == 404


def test_under_wsgi_the_stream_is_refused_and_the_ticket_stays_good(place, learner, client):
    query = f"ticket={ticket_for(place, learner)}"
    response = client.get(f"{place}events/?{query}")
    assert problem(response) == (501, "no-streaming")
    assert open_stream(place, query)[0].status_code == 200


def test_more_streams_than_the_process_holds_are_refused(place, learner, settings):
    settings.STREAMS_PER_PROCESS = 0
    response, _ = open_stream(place, f"ticket={ticket_for(place, learner)}")
    assert problem(response) == (503, "too-many-streams")
    assert response["Retry-After"] == "10"


def test_one_learner_has_so_many_streams_and_no_more(place, learner, settings):
    settings.STREAMS_PER_LEARNER = 0
    response, _ = open_stream(place, f"ticket={ticket_for(place, learner)}")
    assert problem(response) == (429, "too-many-active")


def test_streams_that_ended_are_not_counted(place, learner):
    open_stream(place, f"ticket={ticket_for(place, learner)}")
    assert open_streams.total() == 0


def test_old_tickets_are_swept_and_young_ones_stay(place, learner):
    ticket_for(place, learner)
    StreamTicket.objects.update(expires_at=timezone.now() - timedelta(minutes=11))
    ticket_for(place, learner)
    assert forget_old_tickets() == 1
    assert StreamTicket.objects.count() == 1
