"""Static files under ASGI: sent whole, closed, and without Django's warning."""

import asyncio
import io
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory
from whitenoise.responders import StaticFile

from config.static import PART_BYTES, StaticFilesMiddleware

BODY = b"x" * (2 * PART_BYTES + 7)


@pytest.fixture
def static_file(tmp_path: Path) -> StaticFile:
    path = tmp_path / "a.js"
    path.write_bytes(BODY)
    return StaticFile(str(path), [("Content-Type", "text/javascript")])


def asgi_request(method: str = "GET") -> ASGIRequest:
    scope = {"type": "http", "method": method, "path": "/static/a.js", "query_string": b"", "headers": []}
    return ASGIRequest(scope, io.BytesIO())


def consume(response: HttpResponseBase) -> list[bytes]:
    assert isinstance(response, StreamingHttpResponse)

    async def read() -> list[bytes]:
        return [part async for part in response]

    with warnings.catch_warnings(), ThreadPoolExecutor(1) as elsewhere:
        warnings.simplefilter("error")
        # In a thread of its own: a browser test before this one may have left a running loop in ours.
        return elsewhere.submit(asyncio.run, read()).result()


def test_under_asgi_a_file_is_sent_part_by_part_without_a_warning(static_file):
    sent = consume(StaticFilesMiddleware.serve(static_file, asgi_request()))
    assert b"".join(sent) == BODY
    assert len(sent) == 3


def test_under_asgi_the_file_is_closed_with_the_response(static_file, db):
    response = StaticFilesMiddleware.serve(static_file, asgi_request())
    file = response._resource_closers[0].__self__  # type: ignore[attr-defined]
    consume(response)
    response.close()
    assert file.closed


def test_under_asgi_an_answer_without_a_body_has_none(static_file):
    assert consume(StaticFilesMiddleware.serve(static_file, asgi_request("HEAD"))) == []


def test_under_wsgi_a_file_is_sent_as_whitenoise_does(static_file):
    response = StaticFilesMiddleware.serve(static_file, RequestFactory().get("/static/a.js"))
    assert response.getvalue() == BODY
