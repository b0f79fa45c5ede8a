"""The project's settings with one page: what `serve` does must not hang on what the pages do."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from config.settings import *  # noqa: F403

ROOT_URLCONF = "tests.labs.serve_settings"


def say_who_asks(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.META["REMOTE_ADDR"])


urlpatterns = [path("", say_who_asks)]
