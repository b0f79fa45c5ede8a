"""Who logs what, and how an id travels: from the request into the message, from the message into the worker."""

import logging.config
import time
import uuid
from typing import Any

from celery import signals
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from django.utils.encoding import escape_uri_path

from simworkers import logs

log = logging.getLogger(__name__)

# A name of ours, so that no later Celery gives it another meaning.
HEADER = "staffloop_request"
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


def logging_settings(*, log_format: str, level: str) -> dict[str, Any]:
    """Django's LOGGING: one handler, on stderr, for everything of this process, its server's lines included."""
    to_root: dict[str, Any] = {"handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"ours": {"()": "simworkers.logs.formatter", "log_format": log_format}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "ours"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "celery": {"level": level},
            "config": {"level": level},
            "django": {**to_root, "level": "INFO"},
            "django.server": {**to_root, "level": "WARNING"},
            "kombu": {"level": "WARNING"},
            "labs": {"level": level},
            # Uvicorn brings handlers of its own, whose lines would not carry ids; its level stays as it was told.
            "uvicorn": to_root,
            "uvicorn.error": to_root,
            # RequestLogMiddleware says more.
            "uvicorn.access": {**to_root, "level": "WARNING"},
        },
    }


@signals.celeryd_init.connect
@signals.setup_logging.connect
def configure_worker_logging(**kwargs: Any) -> None:
    """Celery leaves the logging of its workers to us, since setup_logging has a receiver.

    celeryd_init comes before Celery's first warning.
    """
    logging.config.dictConfig(settings.LOGGING)
    logging.captureWarnings(True)


@signals.before_task_publish.connect
def put_request_into_message(headers: dict[str, Any], **kwargs: Any) -> None:
    if request := logs.ids().get("request"):
        headers[HEADER] = request


class RequestLogMiddleware(MiddlewareMixin):
    """Names the request in every line written on its way, answers with that name, and notes how it ended.

    X-Request-ID is taken from the caller (a proxy, a front end) where it can be an id, and made here otherwise.
    """

    def process_request(self, request: HttpRequest) -> None:
        given = request.headers.get("X-Request-ID", "")
        request.log_id = given if logs.ID.fullmatch(given) else uuid.uuid4().hex  # type: ignore[attr-defined]
        request.log_started = time.perf_counter()  # type: ignore[attr-defined]
        logs.rebind(request=request.log_id)  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        took_ms = (time.perf_counter() - request.log_started) * 1000  # type: ignore[attr-defined]
        # A page that polls writes nothing; what changes something, and what broke, does.
        level = logging.DEBUG if request.method in SAFE_METHODS else logging.INFO
        level = logging.WARNING if response.status_code >= 500 else level
        path = escape_uri_path(request.path)  # a line break in it must not begin a line of ours
        log.log(level, "%s %s %d in %.0f ms", request.method, path, response.status_code, took_ms)
        response["X-Request-ID"] = request.log_id  # type: ignore[attr-defined]
        logs.rebind()
        return response


@signals.task_prerun.connect
def bind_message_ids(task: Any, **kwargs: Any) -> None:
    logs.rebind(**logs.checked_ids({"request": task.request.get(HEADER) or ""}))


@signals.task_postrun.connect
def unbind_message_ids(**kwargs: Any) -> None:
    logs.rebind()
