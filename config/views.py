"""What answers when no view does: plain words on a page, a problem document under /api/."""

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from config import outages
from config.problems import SLUGS, problem_response

DETAILS = {
    400: "The request could not be read.",
    403: "Your account may not do this.",
    404: "There is nothing at this address.",
    500: "Something broke on our side; it has been logged.",
    503: outages.DETAIL,
}


def answer(request: HttpRequest, status: int) -> HttpResponse:
    if request.path.startswith("/api/"):
        return problem_response(status, SLUGS[status], DETAILS[status])
    # Without the request, so that no context processor touches a database that may be what broke.
    return HttpResponse(render_to_string(f"{status}.html"), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, 400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, 403)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Called while the exception is being handled, whichever view or middleware it came from."""
    if not outages.is_away(sys.exception()):
        return answer(request, 500)
    response = answer(request, 503)
    response["Retry-After"] = outages.RETRY_AFTER_S
    return response
