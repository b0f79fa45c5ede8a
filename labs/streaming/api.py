"""Stream tickets and the stream itself.

The view is an ordinary one: it redeems the ticket in the request's thread and gives its database connection back.
What it answers with is an asynchronous iterator, which only the event loop of an ASGI server can wait for without
holding a thread; under WSGI it refuses.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from asgiref.sync import SyncToAsync
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connection
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from labs.api.examples import runs as examples
from labs.api.renderers import EventStreamRenderer
from labs.models import Run
from labs.streaming.events import BEFORE_ALL, GRADED, Position, Snapshot, events_after, position_of
from labs.streaming.hub import hub, open_streams, read_snapshots
from labs.streaming.tickets import issue_ticket, redeem_ticket
from quiz.api.schema import problems
from quiz.errors import BadHeader, Refusal, TooMany
from quiz.models import Learner

RETRY_MS = 2000


class NoStreaming(Refusal):
    """This process answers one request a worker at a time."""

    status = 501
    slug = "no-streaming"
    title = "This server cannot stream"


class StreamsFull(Refusal):
    """As many streams as this process holds are open."""

    status = 503
    slug = "too-many-streams"
    title = "Too many streams are open"
    headers = {"Retry-After": "10"}


class StreamTicketSerializer(serializers.Serializer[Any]):
    ticket = serializers.CharField(help_text="Good once. Shown once.")
    expires_at = serializers.DateTimeField()
    events_url = serializers.CharField(help_text="The stream, the ticket included.")


class StreamTickets(APIView):
    @extend_schema(
        operation_id="issue_stream_ticket",
        tags=["runs"],
        summary="Get a ticket for a run's event stream",
        description="An EventSource can send no token; it shows this ticket instead, once, within a minute.",
        request=None,
        responses={201: StreamTicketSerializer, **problems(401, 404)},
        examples=examples.STREAM_TICKET,
    )
    def post(self, request: Request, public_id: str) -> Response:
        assert isinstance(request.user, Learner)
        run = get_object_or_404(Run.objects.for_learner(request.user), public_id=public_id)
        row, secret = issue_ticket(run=run)
        url = f"{reverse('api-run-events', args=[run.public_id], request=request)}?ticket={secret}"
        answer = {"ticket": secret, "expires_at": row.expires_at, "events_url": url}
        headers = {"Cache-Control": "no-store"}
        return Response(StreamTicketSerializer(answer).data, status=201, headers=headers)


class RunEvents(APIView):
    """Server-sent events; needs an ASGI server."""

    authentication_classes = []
    permission_classes = [AllowAny]
    renderer_classes = [EventStreamRenderer, JSONRenderer]

    @extend_schema(
        operation_id="stream_run_events",
        tags=["runs"],
        summary="Follow a run as server-sent events",
        description="Events: `state`, `progress`, `result-ready`, `figures-ready`; a comment every 15 s while there is "
        "none. The stream ends when nothing more will come, or after a time: then get a new ticket, and "
        "send the last id as `Last-Event-ID` or `last_event_id` to hear what was missed.",
        auth=[],
        parameters=[
            OpenApiParameter("ticket", str, required=True, description="From `stream-tickets`."),
            OpenApiParameter("last_event_id", str, description="Instead of the header Last-Event-ID."),
            OpenApiParameter(
                "Last-Event-ID", str, OpenApiParameter.HEADER, description="The id heard last; empty: none."
            ),
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(OpenApiTypes.STR, "Events as they come."),
            **problems(400, 401, 403, 404, 429, 501, 503),
        },
        examples=examples.EVENTS,
    )
    def get(self, request: Request, public_id: str) -> HttpResponseBase:
        if not isinstance(request._request, ASGIRequest):
            raise NoStreaming("Streams need an ASGI server here; poll the run with If-None-Match instead.")
        if open_streams.total() >= settings.STREAMS_PER_PROCESS:
            raise StreamsFull(f"This process holds {settings.STREAMS_PER_PROCESS} streams; poll instead.")
        seen = last_seen(request)
        try:
            run = redeem_ticket(secret=request.query_params.get("ticket", ""), run_id=str(public_id))
            if open_streams[run.learner_id] >= settings.STREAMS_PER_LEARNER:
                raise TooMany(f"At most {settings.STREAMS_PER_LEARNER} streams of yours at a time.")
            first = read_snapshots([run.pk])[run.pk]
        finally:
            give_connection_back()
        place = reverse("api-run", args=[run.public_id], request=request)
        links = {"result-ready": {"url": place}, "figures-ready": {"url": f"{place}figures/"}}
        return StreamingHttpResponse(
            tell(run, first, seen, links),
            content_type="text/event-stream",
            # Proxies that collect an answer before passing it on would make a stream of it in vain.
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


def last_seen(request: Request) -> Position:
    """Where the client stopped hearing; BadHeader where it says something that was no id."""
    said = request.headers.get("Last-Event-ID") or request.query_params.get("last_event_id", "")
    if not said:
        return BEFORE_ALL
    try:
        return position_of(said)
    except ValueError as exc:
        raise BadHeader(f"Last-Event-ID: {exc}.") from None


def give_connection_back() -> None:
    """The request goes on for minutes, and its thread would keep the connection for as long."""
    if not connection.in_atomic_block:  # the transaction of a test
        connection.close()


def give_thread_back() -> None:
    """Django keeps a thread for each request until it ends; this one needs it no more, and its end makes another."""
    context = SyncToAsync.thread_sensitive_context.get(None)
    if context and (thread := SyncToAsync.context_to_thread_executor.pop(context, None)):
        thread.shutdown(wait=False)


async def tell(
    run: Run, first: Snapshot, seen: Position, links: dict[str, dict[str, str]]
) -> AsyncIterator[str]:
    """The events after `seen`, until nothing more will come or the time is up."""
    give_thread_back()
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + settings.STREAM_MAX_S
    open_streams[run.learner_id] += 1
    try:
        yield f"retry: {RETRY_MS}\n\n"
        async with hub().watch(run.pk, first) as watcher:
            while (now := watcher.snapshot) is not None:
                for event in events_after(seen, now):
                    event.data.update(links.get(event.name, {}))
                    yield event.encode()
                    seen = event.position
                if now.is_over:
                    return
                if now.state == GRADED:
                    # Figures that cannot be drawn never come; the result is there.
                    ends_at = min(ends_at, loop.time() + settings.STREAM_FIGURES_S)
                wait_s = min(settings.STREAM_HEARTBEAT_S, ends_at - loop.time())
                if wait_s <= 0:
                    return
                if not await watcher.changed(wait_s):
                    yield ": still here\n\n"
    finally:
        open_streams[run.learner_id] -= 1
        if not open_streams[run.learner_id]:
            del open_streams[run.learner_id]
