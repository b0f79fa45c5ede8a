"""Progress as server-sent events: what is told, who is let in, what a reconnect hears, and when it ends."""

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from labs.models import Figure, Lab, Run, StreamTicket
from labs.streaming.api import open_streams
from labs.streaming.events import BEFORE_ALL, Snapshot, events_after, position_of, story
from labs.streaming.hub import read_snapshots
from labs.streaming.tickets import forget_old_tickets
from tests.labs.conftest import make_learner
from tests.labs.test_api import client_of

QUEUED = Snapshot("queued", 0, 0, None, "", False)


def snapshot(**changes: Any) -> Snapshot:
    return Snapshot(**{**QUEUED.__dict__, **changes})


def told(now: Snapshot, after: str = "") -> list[str]:
    """Each event in short."""
    seen = position_of(after) if after else BEFORE_ALL
    return [" ".join([e.name, *map(str, e.data.values())]).strip() for e in events_after(seen, now)]


# What is told -------------------------------------------------------------------------------------


def test_a_run_that_waits_is_told_as_queued():
    assert told(QUEUED) == ["state queued 0"]


def test_a_run_that_computes_is_told_with_its_progress():
    running = snapshot(state="running", tries=1, done=7, total=24)
    assert told(running) == ["state queued 0", "state running 1", "progress 7 24"]


def test_before_the_child_has_begun_there_is_no_progress():
    assert told(snapshot(state="running", tries=1)) == ["state queued 0", "state running 1"]


def test_a_run_taken_back_to_the_queue_is_told_with_the_reason():
    assert told(snapshot(tries=1, reason="It crashed."), after="1.8") == ["state queued 1 It crashed."]


def test_what_passed_unseen_is_told_in_order():
    graded = snapshot(state="graded", tries=2, done=24, total=24, figures=True)
    assert told(graded, after="1.8") == [
        *("state queued 1", "state running 2", "progress 24 24", "state graded 2"),
        *("result-ready", "figures-ready"),
    ]


@pytest.mark.parametrize("end", ["failed", "cancelled", "timed_out"])
def test_an_end_without_a_result_is_the_last_event(end):
    ended = snapshot(state=end, tries=1, reason="why")
    assert told(ended, after="1.0") == [f"state {end} 1 why"]
    assert ended.is_over


def test_a_run_cancelled_in_the_queue_was_never_running():
    assert told(snapshot(state="cancelled", reason="")) == ["state queued 0", "state cancelled 0"]


def test_a_graded_run_is_over_only_with_its_figures():
    assert not snapshot(state="graded", tries=1).is_over
    assert snapshot(state="graded", tries=1, figures=True).is_over


snapshots = st.builds(
    Snapshot,
    state=st.sampled_from(["queued", "running", "graded", "failed", "cancelled", "timed_out"]),
    tries=st.integers(1, 4),
    done=st.integers(0, 50),
    total=st.one_of(st.none(), st.integers(50, 60)),
    reason=st.text(max_size=5),
    figures=st.booleans(),
)


@given(snapshots, st.data())
def test_an_id_replays_exactly_what_came_after_it(now, data):
    everything = list(story(now))
    heard = data.draw(st.integers(1, len(everything)))
    last = position_of(str(everything[heard - 1].position))
    assert list(events_after(last, now)) == everything[heard:]


@given(snapshots)
def test_ids_only_grow(now):
    positions = [event.position for event in story(now)]
    assert positions == sorted(set(positions))


@given(snapshots)
def test_an_event_is_four_lines_whatever_its_text(now):
    for event in story(now):
        assert len(event.encode().splitlines()) == 4


@pytest.mark.parametrize(
    "text", ["", "1", "1.", ".1", "-1.0", "1.0.0", "a.b", "¹.0", "9" * 20 + ".0", "1 .0"]
)
def test_what_is_no_id_is_refused(text):
    with pytest.raises(ValueError, match="id"):
        position_of(text)


# Who is let in ------------------------------------------------------------------------------------


@pytest.fixture
def run(lab: Lab, learner: Any) -> Run:
    return Run.objects.create(lab=lab, learner=learner, params={}, seed=0, state=Run.State.CANCELLED)


@pytest.fixture
def place(run: Run) -> str:
    return f"/api/v1/runs/{run.public_id}/"


def ticket_for(place: str, learner: Any) -> str:
    answer = client_of(learner).post(f"{place}stream-tickets/")
    assert answer.status_code == 201, answer.content
    return answer.json()["ticket"]


def open_stream(path: str, query: str = "", **headers: str) -> tuple[Any, list[dict[str, Any]]]:
    """(response, its events) over ASGI, in the transaction of the test."""

    async def read() -> tuple[Any, list[dict[str, Any]]]:
        response: Any = await AsyncClient().get(f"{path}events/?{query}", headers=headers)
        if not response.streaming:
            return response, []
        return response, parse("".join([part.decode() async for part in response.streaming_content]))

    return async_to_sync(read)()


def parse(text: str) -> list[dict[str, Any]]:
    blocks = [block for block in text.split("\n\n") if "event: " in block]
    rows = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    return [{**row, "data": json.loads(row["data"])} for row in rows]


def problem(response: Any) -> tuple[int, str]:
    assert response["Content-Type"] == "application/problem+json"
    return response.status_code, response.json()["type"].removeprefix("urn:staffloop:problem:")


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


# What a reconnect hears ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["header", "query"])
def test_a_reconnect_hears_what_came_after_its_last_id(place, learner, how):
    ticket = ticket_for(place, learner)
    if how == "header":
        _, events = open_stream(place, f"ticket={ticket}", **{"Last-Event-ID": "0.0"})
    else:
        _, events = open_stream(place, f"ticket={ticket}&last_event_id=0.0")
    assert [event["data"]["state"] for event in events] == ["cancelled"]


def test_a_reconnect_after_the_last_event_ends_at_once(place, learner):
    _, events = open_stream(place, f"ticket={ticket_for(place, learner)}&last_event_id=1000000.0")
    assert events == []


def test_an_id_that_was_none_is_refused_and_the_ticket_stays_good(place, learner):
    query = f"ticket={ticket_for(place, learner)}"
    assert problem(open_stream(place, f"{query}&last_event_id=x")[0]) == (400, "invalid-header")
    assert open_stream(place, query)[0].status_code == 200


def test_the_end_names_where_result_and_figures_are(place, run, learner):
    Run.objects.filter(pk=run.pk).update(state=Run.State.GRADED, report={}, tries=1)
    Figure.objects.create(run=run, name="f", position=0, title="F", spec={}, table=[], png=b"")
    _, events = open_stream(place, f"ticket={ticket_for(place, learner)}")
    ends = {event["event"]: event["data"].get("url", "") for event in events}
    assert ends["result-ready"].endswith(place)
    assert ends["figures-ready"].endswith(f"{place}figures/")


# While it goes on: the poller reads in a thread of its own, so the rows are committed ---------------


class Listener:
    """Reads a stream in the background, as a browser would."""

    def __init__(self) -> None:
        self.text = ""
        self.ended = asyncio.Event()

    async def follow(self, place: str, ticket: str) -> None:
        response: Any = await AsyncClient().get(f"{place}events/?ticket={ticket}")
        assert response.status_code == 200, response.content
        async for part in response.streaming_content:
            self.text += part.decode()
        self.ended.set()

    async def until(self, words: str) -> None:
        async with asyncio.timeout(10):
            while words not in self.text:
                await asyncio.sleep(0.02)


@pytest.fixture
def quick(settings: Any) -> None:
    settings.STREAM_POLL_S = 0.05


def change(run: Run, **values: Any) -> Any:
    return Run.objects.filter(pk=run.pk).aupdate(**values)


@pytest.mark.django_db(transaction=True)
def test_changes_of_the_row_arrive_while_the_stream_is_open_until_the_end(run, place, learner, quick):
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    ticket = ticket_for(place, learner)

    async def scene() -> list[dict[str, Any]]:
        one = Listener()
        task = asyncio.create_task(one.follow(place, ticket))
        await one.until('"queued"')
        await change(run, state="running", tries=1, steps_total=4)
        await one.until('"running"')
        await change(run, steps_done=2)
        await one.until('"done": 2')
        await change(run, state="failed", reason="why")
        async with asyncio.timeout(10):
            await task
        return parse(one.text)

    events = async_to_sync(scene)()
    assert [event["event"] for event in events] == ["state", "state", "progress", "progress", "state"]
    assert events[-1]["data"] == {"state": "failed", "try": 1, "reason": "why"}


@pytest.mark.django_db(transaction=True)
def test_while_nothing_happens_a_comment_keeps_the_stream_alive_and_a_maximum_ends_it(
    run, place, learner, quick, settings
):
    settings.STREAM_HEARTBEAT_S = 0.1
    settings.STREAM_MAX_S = 0.35
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    ticket = ticket_for(place, learner)

    async def scene() -> str:
        one = Listener()
        async with asyncio.timeout(10):
            await one.follow(place, ticket)
        return one.text

    assert async_to_sync(scene)().count(": still here\n\n") >= 3


@pytest.mark.django_db(transaction=True)
def test_a_graded_run_whose_figures_never_come_ends_after_a_while(run, place, learner, quick, settings):
    settings.STREAM_FIGURES_S = 0.2
    Run.objects.filter(pk=run.pk).update(state=Run.State.GRADED, report={}, tries=1)
    ticket = ticket_for(place, learner)

    async def scene() -> str:
        one = Listener()
        async with asyncio.timeout(10):
            await one.follow(place, ticket)
        return one.text

    assert parse(async_to_sync(scene)())[-1]["event"] == "result-ready"


@pytest.mark.django_db(transaction=True)
def test_many_streams_are_served_by_one_query_a_round(run, place, learner, quick, monkeypatch, settings):
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    tickets = [ticket_for(place, learner) for _ in range(10)]
    rounds: list[list[int]] = []

    def counted(keys: Any) -> Any:
        rounds.append(list(keys))
        return read_snapshots(keys)

    monkeypatch.setattr("labs.streaming.hub.read_snapshots", counted)

    async def scene() -> None:
        listeners = [Listener() for _ in tickets]
        tasks = [asyncio.create_task(one.follow(place, t)) for one, t in zip(listeners, tickets, strict=True)]
        for one in listeners:
            await one.until('"queued"')
        rounds.clear()
        await asyncio.sleep(0.5)
        assert 1 <= len(rounds) <= 11
        await change(run, state="cancelled")
        async with asyncio.timeout(10):
            await asyncio.gather(*tasks)

    async_to_sync(scene)()
    assert all(keys == [run.pk] for keys in rounds)


@pytest.mark.django_db(transaction=True)
def test_who_leaves_is_forgotten_and_the_last_one_ends_the_poller(run, place, learner, quick):
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    ticket = ticket_for(place, learner)

    async def scene() -> None:
        one = Listener()
        task = asyncio.create_task(one.follow(place, ticket))
        await one.until('"queued"')
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        async with asyncio.timeout(5):
            while any(other.get_name() == "run-poller" for other in asyncio.all_tasks()):
                await asyncio.sleep(0.02)

    async_to_sync(scene)()
    assert open_streams.total() == 0


@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_for_a_while_costs_no_stream(run, place, learner, quick, monkeypatch):
    from django.db import OperationalError

    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    ticket = ticket_for(place, learner)
    broken, noticed = threading.Event(), threading.Event()

    def sometimes(keys: Any) -> Any:
        if broken.is_set():
            noticed.set()
            raise OperationalError("gone")
        return read_snapshots(keys)

    monkeypatch.setattr("labs.streaming.hub.read_snapshots", sometimes)

    async def scene() -> None:
        one = Listener()
        task = asyncio.create_task(one.follow(place, ticket))
        await one.until('"queued"')
        broken.set()
        await asyncio.to_thread(noticed.wait, 10)  # a read that began before would still see the change
        await change(run, state="cancelled")
        noticed.clear()
        await asyncio.to_thread(noticed.wait, 10)
        assert not task.done()
        broken.clear()
        async with asyncio.timeout(10):
            await task

    async_to_sync(scene)()
