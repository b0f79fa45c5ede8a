"""Whether this process lives, and whether the site can do its work: /healthz and /readyz.

Answered before any other middleware: without a login or session, for whatever host name a probe uses, and never
redirected to https.
"""

import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.deprecation import MiddlewareMixin

from config import metrics
from labs.models import Worker
from simworkers import catalog

log = logging.getLogger(__name__)

BROKER_PATIENCE_S = 1.0
# A broker that swallows packets holds a thread longer than we wait; so many of them at most.
_askers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="readyz")


class NotReady(Exception):
    """What is wrong, in words that may be shown to anyone: no address, no name, no password."""


class ProbeMiddleware(MiddlewareMixin):
    """Answers /healthz, /readyz and /metrics."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        probe = PROBES.get(request.path)
        if probe is None:
            return None
        if request.method not in {"GET", "HEAD"}:
            return HttpResponse(status=405, headers={"Allow": "GET, HEAD"})
        response = probe(request)
        if response is not None:
            response["Cache-Control"] = "no-store"
            # Django would add an error a probe; /readyz says it better.
            response._has_been_logged = True  # type: ignore[attr-defined]
        return response


def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers. Nothing else is looked at: restarting it would not bring a database back."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """200 where runs can be taken, stored, sent and computed; else 503 and what is wrong."""
    checks = {name: outcome(check) for name, check in CHECKS.items()}
    for name, check in checks.items():
        if not check["ok"]:
            log.warning("readyz: %s: %s", name, check["problem"])
    ready = all(check["ok"] for check in checks.values())
    document = {"status": "ready" if ready else "not ready", "checks": checks}
    return JsonResponse(document, status=200 if ready else 503)


def outcome(check: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        result = {"ok": True, **check()}
    except NotReady as exc:
        result = {"ok": False, "problem": str(exc)}
    except DatabaseError as exc:
        log.warning("readyz: %s", exc)
        result = {"ok": False, "problem": "the database does not answer"}
    return {**result, "ms": round((time.perf_counter() - started) * 1000, 1)}


def check_database() -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return {"vendor": connection.vendor}


def check_migrations() -> dict[str, Any]:
    applied = MigrationRecorder(connection).applied_migrations()
    if missing := [f"{app}.{name}" for app, name in sorted(known_migrations() - set(applied))]:
        raise NotReady(f"{len(missing)} migration(s) are not applied: {', '.join(missing[:5])}")
    return {}


@functools.cache
def known_migrations() -> frozenset[tuple[str, str]]:
    """(app, name) of all migrations of this code, less those that a squashed one replaces."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    replaced = {key for row in loader.disk_migrations.values() for key in row.replaces}
    return frozenset(set(loader.disk_migrations) - replaced)


def check_broker() -> dict[str, Any]:
    """A connection of its own and a channel on it, which makes every transport speak with its server."""
    try:
        _askers.submit(greet_broker).result(timeout=BROKER_PATIENCE_S)
    except TimeoutError:
        raise NotReady(f"the broker does not answer within {BROKER_PATIENCE_S:.0f} s") from None
    except Exception as exc:
        # Whatever the client library of whichever broker raises; it may quote an address, so it is only logged.
        log.warning("readyz: broker: %s: %s", type(exc).__name__, exc)
        raise NotReady(f"the broker cannot be reached ({type(exc).__name__})") from exc
    return {"transport": settings.BROKER_URL.partition(":")[0]}


def greet_broker() -> None:
    options = dict(current_app.conf.broker_transport_options)
    if settings.BROKER_URL.startswith("redis"):
        options |= {"socket_connect_timeout": BROKER_PATIENCE_S, "socket_timeout": BROKER_PATIENCE_S}
    with current_app.connection_for_write(connect_timeout=BROKER_PATIENCE_S) as link:
        link.transport_options = options
        link.connect()
        link.channel()  # closed with the connection


def check_workers() -> dict[str, Any]:
    live = list(Worker.objects.live())
    if not live:
        raise NotReady("no worker has reported itself lately")
    unserved = [
        lab
        for lab in catalog.job_names()
        if not any(worker.computes().get(lab) == catalog.engine_version(lab) for worker in live)
    ]
    if unserved:
        raise NotReady(f"no live worker computes this version of: {', '.join(unserved)}")
    return {"live": len(live), "slots": sum(worker.slots for worker in live)}


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "database": check_database,
    "migrations": check_migrations,
    "broker": check_broker,
    "workers": check_workers,
}

# /metrics answers None, and so 404, to whom it does not know.
PROBES: dict[str, Callable[[HttpRequest], HttpResponse | None]] = {
    "/healthz": healthz,
    "/readyz": readyz,
    "/metrics": metrics.answer,
}
