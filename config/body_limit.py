"""Refusing a body that is too long, or of unknown length, before anything keeps it.

Under ASGI Django writes a whole body to a temporary file before its first middleware sees the request, so the limit
stands around the application there. Under WSGI a middleware is early enough.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from config.problems import problem_response

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
# A browser shows the answer only to a body that it could send; so much of a refused one is read and dropped.
DROPPED_BYTES = 32 * 2**20


def refusal_of_body(path: str, length: str, chunked: bool) -> HttpResponse | None:
    """The answer to a body that announces more than the limit, or no length; None for one that may be read.

    A body that comes in chunks announces none, and the REST framework would take it for an empty one: a run with other
    parameters than those that were sent.
    """
    limit = settings.LONGER_BODIES.get(path, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    if not length and chunked:
        return refusal(path, 411, "length-required", "Send the body whole, with its Content-Length.")
    if length.isdigit() and int(length) > limit:
        detail = f"The body has {length} bytes; at most {limit} are read."
        return refusal(path, 413, "body-too-large", detail)
    return None


def refusal(path: str, status: int, slug: str, detail: str) -> HttpResponse:
    if path.startswith("/api/"):
        return problem_response(status, slug, detail)
    return HttpResponse(render_to_string("413.html", {"status": status, "detail": detail}), status=status)


class BodyLimitMiddleware:
    """Under WSGI, and wherever no ASGI server stands before the application."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length, chunked = request.META.get("CONTENT_LENGTH") or "", "Transfer-Encoding" in request.headers
        return refusal_of_body(request.path, length, chunked) or self.get_response(request)


class BodyLimit:
    """Around an ASGI application."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self.application = application

    async def __call__(
        self,
        scope: Any,
        receive: Callable[[], Awaitable[Any]],
        send: Callable[[Any], Awaitable[None]],
    ) -> None:
        answer = None
        if scope["type"] == "http":
            headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
            length, chunked = headers.get(b"content-length", ""), b"transfer-encoding" in headers
            answer = refusal_of_body(scope["path"], length, chunked)
        if answer is None:
            return await self.application(scope, receive, send)
        log.warning("%s %s: refused with %d", scope["method"], ascii(scope["path"]), answer.status_code)
        await drop_body(receive)
        head = [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
        head.append((b"content-length", str(len(answer.content)).encode()))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": head})
        await send({"type": "http.response.body", "body": answer.content})
        return None


async def drop_body(receive: Callable[[], Awaitable[Message]]) -> None:
    dropped_bytes = 0
    while dropped_bytes < DROPPED_BYTES:
        message = await receive()
        dropped_bytes += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return
