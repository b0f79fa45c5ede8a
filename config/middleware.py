"""What every request passes: charset and query on the way in, and for the API headers on the way out."""

import codecs
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.cache import patch_vary_headers

from config.problems import problem_response


class QueryMiddleware:
    """Refuses NUL in a query: no database can look for it, and PostgreSQL's refusal would be a server error."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "")
        return (
            refusal(request, "The query holds a NUL character.")
            if "%00" in query
            else self.get_response(request)
        )


class CharsetMiddleware:
    """Refuses a body in another charset than UTF-8, before Django takes the name for one of Python's codecs.

    `charset=zlib_codec` or `rot13` are codecs too, and would end as a server error.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        charset = (request.content_params or {}).get("charset", "utf-8")
        if codec_name(charset) not in ("utf-8", "ascii", None):
            return refusal(request, f"The body's charset must be utf-8, not {charset[:40]}.")
        return self.get_response(request)


def refusal(request: HttpRequest, detail: str) -> HttpResponse:
    """400, in the words of the API or in plain ones."""
    if request.path.startswith("/api/"):
        return problem_response(400, "malformed", detail)
    return HttpResponseBadRequest(detail, content_type="text/plain; charset=utf-8")


def codec_name(charset: str) -> str | None:
    """Python's name for it; None where it has none, which Django ignores."""
    try:
        return codecs.lookup(charset).name
    except (LookupError, ValueError):
        return None


class ApiHeadersMiddleware:
    """Says of every answer of the API whom it is for, and what is left of the caller's limits.

    The answers are one person's: a shared cache keeps none, and a browser asks again with its ETag. RateLimit and
    RateLimit-Policy as in draft-ietf-httpapi-ratelimit-headers-10.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.path.startswith("/api/"):
            response.setdefault("Cache-Control", "private, no-cache")
            patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
            # Left there by quiz.api.throttling, which sees the learner but not yet the answer.
            if quotas := getattr(request, "quotas", []):
                policies = [f'"{one.name}";q={one.limit};w={one.window_s}' for one in quotas]
                left = [f'"{one.name}";r={one.remaining};t={one.reset_s}' for one in quotas]
                response["RateLimit-Policy"] = ", ".join(policies)
                response["RateLimit"] = ", ".join(left)
        return response
