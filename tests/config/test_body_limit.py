"""Bodies that are refused before anything parses or keeps them."""

import asyncio
import io
import json
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.urls import reverse

from config import body_limit
from config.body_limit import BodyLimit, BodyLimitMiddleware

BODY = json.dumps({"practice": True}).encode()
LIMIT = 2**20
PATHS = {"/api/v1/runs/": "application/problem+json", "/labs/moe-eplb/": "text/html; charset=utf-8"}


def scope_of(headers: dict[str, str], path: str) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }


def through_middleware(headers: dict[str, str], path: str) -> tuple[int, str, bytes]:
    passed = BodyLimitMiddleware(lambda request: HttpResponse("passed"))
    answer = passed(ASGIRequest(scope_of(headers, path), io.BytesIO(BODY)))
    return answer.status_code, answer["Content-Type"], answer.content


class Wire:
    """The server's side of one request that comes in parts of 64 KiB."""

    def __init__(self, parts: int) -> None:
        self.parts, self.read = parts, 0
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        self.read += 1
        return {"type": "http.request", "body": b"x" * 65536, "more_body": self.read < self.parts}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


def run_elsewhere(coroutine: Coroutine[Any, Any, None]) -> None:
    """In a thread of its own: a browser test before this one may have left a running loop in ours."""
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, coroutine).result()


async def passed(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"passed"})


def through_asgi(headers: dict[str, str], path: str, parts: int = 1) -> tuple[int, str, bytes]:
    wire = Wire(parts)
    run_elsewhere(BodyLimit(passed)(scope_of(headers, path), wire.receive, wire.send))
    start, body = wire.sent
    return start["status"], dict(start["headers"])[b"content-type"].decode(), body["body"]


@pytest.mark.parametrize("way", [through_middleware, through_asgi])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Content-Length": str(LIMIT + 1)}, 413), ({"Transfer-Encoding": "chunked"}, 411)],
)
def test_a_body_over_the_limit_or_of_unknown_length_is_refused_everywhere(way, path, headers, status):
    assert way(headers, path)[:2] == (status, PATHS[path])


@pytest.mark.parametrize("way", [through_middleware, through_asgi])
@pytest.mark.parametrize("headers", [{"Content-Length": str(LIMIT)}, {}])
def test_a_body_within_the_limit_passes_and_so_does_none(way, headers):
    assert way(headers, "/labs/moe-eplb/")[2] == b"passed"


@pytest.mark.parametrize("way", [through_middleware, through_asgi])
@pytest.mark.parametrize("path", ["/api/v1/traces/", "/labs/traces/", "/admin/labs/trace/add/"])
def test_where_a_trace_is_handed_in_more_is_read_and_a_trace_with_its_form_fits(way, path, settings):
    longest = settings.TRACE_LIMIT_BYTES + 2**16
    assert way({"Content-Length": str(longest)}, path)[2] == b"passed"
    assert way({"Content-Length": str(longest + 1)}, path)[0] == 413
    assert way({"Transfer-Encoding": "chunked"}, path)[0] == 411


def test_the_places_of_longer_bodies_are_those_that_take_a_file(settings):
    places = [reverse("api-traces"), reverse("traces-page"), reverse("admin:labs_trace_add")]
    assert sorted(settings.LONGER_BODIES) == sorted(places)


def test_a_chunked_body_is_not_taken_for_an_empty_one():
    document = json.loads(through_middleware({"Transfer-Encoding": "chunked"}, "/api/v1/runs/")[2])
    assert document["type"] == "urn:staffloop:problem:length-required"


def test_a_refused_body_is_dropped_so_that_a_browser_reads_the_answer_but_not_without_end(monkeypatch):
    headers = {"Content-Length": str(10**12)}
    for parts, read in ((20, 20), (10**6, 32)):
        monkeypatch.setattr(body_limit, "DROPPED_BYTES", 32 * 65536)
        wire = Wire(parts)
        run_elsewhere(BodyLimit(passed)(scope_of(headers, "/"), wire.receive, wire.send))
        assert (wire.read, wire.sent[0]["status"]) == (read, 413)


def test_other_protocols_pass():
    seen = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    run_elsewhere(BodyLimit(application)({"type": "lifespan"}, Wire(1).receive, Wire(1).send))
    assert seen == ["lifespan"]


def test_a_large_upload_to_a_page_is_refused_in_words(client, db):
    file = SimpleUploadedFile("big.txt", b"x" * (LIMIT + 1), "text/plain")
    answer = client.post("/labs/moe-eplb/", {"/params/own_text:file": file})
    assert answer.status_code == 413
    assert f"at most {LIMIT} are read" in answer.content.decode()
