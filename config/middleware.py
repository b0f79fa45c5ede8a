"""What every request passes before anything reads its body."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from config.problems import problem_response


class BodyLimitMiddleware:
    """Refuses an API body that announces more than the limit, before a byte of it is parsed.

    A body without a length is bounded by Django itself while it reads (DATA_UPLOAD_MAX_MEMORY_SIZE).
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        if request.path.startswith("/api/") and length.isdigit() and int(length) > limit:
            detail = f"The body has {length} bytes; at most {limit} are read."
            return problem_response(413, "body-too-large", detail)
        return self.get_response(request)
