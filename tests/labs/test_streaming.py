"""Progress as server-sent events: what a reconnect hears, what arrives while it is open, and when it ends."""

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from labs.models import Figure, Lab, Run
from labs.streaming.api import open_streams
from labs.streaming.hub import read_snapshots
from tests.labs.streams import open_stream, parse, problem, ticket_for


@pytest.fixture
def run(lab: Lab, learner: Any) -> Run:
    return Run.objects.create(lab=lab, learner=learner, params={}, seed=0, state=Run.State.CANCELLED)


@pytest.fixture
def place(run: Run) -> str:
    return f"/api/v1/runs/{run.public_id}/"


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
        async with asyncio.timeout(120):
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
        async with asyncio.timeout(120):
            await task
        return parse(one.text)

    events = async_to_sync(scene)()
    assert [event["event"] for event in events] == ["state", "state", "progress", "progress", "state"]
    assert events[-1]["data"] == {"state": "failed", "try": 1, "reason": "why"}


@pytest.mark.django_db(transaction=True)
def test_while_nothing_happens_comments_keep_the_stream_alive(run, place, learner, quick, settings):
    settings.STREAM_HEARTBEAT_S = 0.1
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    ticket = ticket_for(place, learner)

    async def scene() -> None:
        one = Listener()
        async with asyncio.timeout(120):
            task = asyncio.create_task(one.follow(place, ticket))
            while one.text.count(": still here\n\n") < 3:
                await asyncio.sleep(0.02)
            await change(run, state="cancelled")
            await task

    async_to_sync(scene)()


@pytest.mark.django_db(transaction=True)
def test_a_maximum_ends_the_stream_of_a_run_that_goes_on(run, place, learner, quick, settings):
    settings.STREAM_MAX_S = 0.35
    Run.objects.filter(pk=run.pk).update(state=Run.State.QUEUED)
    ticket = ticket_for(place, learner)

    async def scene() -> str:
        one = Listener()
        async with asyncio.timeout(120):
            await one.follow(place, ticket)
        return one.text

    assert [event["event"] for event in parse(async_to_sync(scene)())] == ["state"]
    run.refresh_from_db()
    assert run.state == Run.State.QUEUED


@pytest.mark.django_db(transaction=True)
def test_a_graded_run_whose_figures_never_come_ends_after_a_while(run, place, learner, quick, settings):
    settings.STREAM_FIGURES_S = 0.2
    Run.objects.filter(pk=run.pk).update(state=Run.State.GRADED, report={}, tries=1)
    ticket = ticket_for(place, learner)

    async def scene() -> str:
        one = Listener()
        async with asyncio.timeout(120):
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
        async with asyncio.timeout(120):
            while len(rounds) < 3:
                await asyncio.sleep(0.02)
        pollers = [task for task in asyncio.all_tasks() if task.get_name() == "run-poller"]
        assert len(pollers) == 1
        await change(run, state="cancelled")
        async with asyncio.timeout(120):
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
        async with asyncio.timeout(120):
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
        async with asyncio.timeout(120):
            await task

    async_to_sync(scene)()
