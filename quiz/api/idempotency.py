"""`Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07): a POST that may be sent again.

A key counts for one learner and one path, for 24 hours. What is kept is an answer that stays true: success, and
refusals of the request itself. An answer about the moment (409, 429) and our own failures are not kept, so that
the same request may succeed later.
"""

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import APIException
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from quiz import services
from quiz.errors import BadHeader, Refusal
from quiz.models import KeyedAnswer, Learner

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
LONGEST = 255
# Besides Location, what tells a client how to go on.
KEPT_HEADERS = ("Content-Type", "Location", "Retry-After")
PASSING = {409, 429}

Handler = Callable[..., Response]
PARAMETER = OpenApiParameter(
    HEADER,
    {"type": "string", "minLength": 1, "maxLength": LONGEST, "pattern": r"^[\x21-\x7e]+$"},
    OpenApiParameter.HEADER,
    description="Any text of your own, new for each intent. Sent again with the same body within 24 hours, it is "
    "answered as the first time, with `Idempotent-Replayed: true`; with another body it is refused.",
)


def idempotent(handler: Handler) -> Callable[..., HttpResponseBase]:
    """Makes a view's `post` answer a repeated request as the first time, where it carries a key."""

    @wraps(handler)
    def keyed(view: APIView, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key = request.headers.get(HEADER)
        if key is None:
            return handler(view, request, *args, **kwargs)
        refuse_bad_key(key)
        assert isinstance(request.user, Learner)
        row = services.claim_key(
            learner=request.user, path=request.path, key=key, fingerprint=fingerprint_of(request.data)
        )
        if row.status is not None:
            return replay(row)
        return answer_first(view, row, lambda: handler(view, request, *args, **kwargs))

    described: Callable[..., HttpResponseBase] = extend_schema(parameters=[PARAMETER])(keyed)
    return described


def refuse_bad_key(key: str) -> None:
    if not 1 <= len(key) <= LONGEST or not all("!" <= char <= "~" for char in key):
        raise BadHeader(f"{HEADER} must have 1 to {LONGEST} visible ASCII characters.")


def fingerprint_of(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def answer_first(view: APIView, row: KeyedAnswer, carry_out: Callable[[], Response]) -> Response:
    """Effect and answer in one transaction; what is not worth keeping releases the key."""
    try:
        try:
            with transaction.atomic():
                response = carry_out()
                keep(row, response)
        except (APIException, Refusal, Http404, PermissionDenied) as exc:
            # Rolled back; the refusal itself may be kept.
            response = view.handle_exception(exc)
            if response.status_code in PASSING or response.status_code >= 500:
                services.release_key(row=row)
            else:
                keep(row, response)
    except Exception:
        services.release_key(row=row)
        raise
    return response


def keep(row: KeyedAnswer, response: Response) -> None:
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    headers["Content-Type"] = response.content_type or "application/json"
    body = JSONRenderer().render(response.data).decode()
    services.keep_answer(row=row, status=response.status_code, headers=headers, body=body)


def replay(row: KeyedAnswer) -> HttpResponse:
    return HttpResponse(row.body, status=row.status, headers={**row.headers, REPLAYED: "true"})
