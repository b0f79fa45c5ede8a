"""Every error of the API as a problem document (RFC 9457): a stable type, and a JSON pointer per field."""

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpResponse, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response

from config import outages
from quiz.errors import Refusal, pointer_part

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

SLUGS = {
    400: "malformed",
    401: "not-authenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "body-too-large",
    415: "unsupported-media-type",
    429: "throttled",
    500: "server-error",
    503: "unavailable",
}


def body(
    status: int, slug: str, detail: str, *, title: str = "", errors: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    """A problem document. `type` is a URN, so that it stays the same on every host."""
    document: dict[str, Any] = {
        "type": f"urn:staffloop:problem:{slug}",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    if errors:
        document["errors"] = errors
    return document


def problem_response(status: int, slug: str, detail: str) -> HttpResponse:
    """A problem document outside DRF: middleware and error handlers."""
    return JsonResponse(body(status, slug, detail), status=status, content_type=MEDIA_TYPE)


def pointers(detail: Any, path: str = "") -> Iterator[dict[str, str]]:
    """DRF's nested error detail, flattened into {pointer, detail} rows."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            at = (
                path
                if key == settings.REST_FRAMEWORK.get("NON_FIELD_ERRORS_KEY", "non_field_errors")
                else f"{path}/{pointer_part(key)}"
            )
            yield from pointers(value, at)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            nested = isinstance(value, (dict, list))
            yield from pointers(value, f"{path}/{index}" if nested else path)
    else:
        yield {"pointer": f"#{path}", "detail": str(detail)}


def handle(exc: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's EXCEPTION_HANDLER. None lets Django log the exception and answer 500."""
    headers: dict[str, str] = {}
    if isinstance(exc, Refusal):
        rows = [{"pointer": f"#{pointer}", "detail": text} for pointer, text in exc.errors]
        document = body(exc.status, exc.slug, exc.detail, title=exc.title, errors=rows)
        return answer(document, dict(exc.headers))
    if isinstance(exc, Http404):
        exc = exceptions.NotFound()
    elif isinstance(exc, PermissionDenied):
        exc = exceptions.PermissionDenied()
    elif isinstance(exc, RequestDataTooBig):
        return answer(body(413, SLUGS[413], str(exc)), headers)
    elif outages.is_away(exc):
        log.error("the database is away: %s", exc)
        return answer(body(503, SLUGS[503], outages.DETAIL), headers | {"Retry-After": outages.RETRY_AFTER_S})
    if not isinstance(exc, exceptions.APIException):
        return None
    if challenge := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if wait := getattr(exc, "wait", None):
        headers["Retry-After"] = str(int(wait) + 1)
    if isinstance(exc, exceptions.ValidationError):
        rows = list(pointers(exc.detail))
        text = "; ".join(f"{row['pointer'][2:] or 'body'}: {row['detail']}" for row in rows)
        return answer(
            body(400, "invalid-input", text, title="Some values were not accepted", errors=rows), headers
        )
    return answer(body(exc.status_code, SLUGS.get(exc.status_code, "error"), str(exc.detail)), headers)


def answer(document: dict[str, Any], headers: dict[str, str]) -> Response:
    return Response(document, status=document["status"], headers=headers, content_type=MEDIA_TYPE)
