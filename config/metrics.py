"""/metrics, as Prometheus text: requests of this process, and the runs of the whole site counted from their rows."""

import hmac
import logging
import time

from django.conf import settings
from django.db.utils import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from labs.metrics import run_metrics

log = logging.getLogger(__name__)

disable_created_metrics()  # a second series for each counter and histogram, which nobody reads

# Of this process alone: where several serve, each has its own, and a scrape meets one of them.
PROCESS = CollectorRegistry()
ProcessCollector(registry=PROCESS)
REQUESTS = Counter(
    "staffloop_http_requests",
    "Requests answered by this process",
    ["method", "route", "status"],
    registry=PROCESS,
)
LATENCY = Histogram(
    "staffloop_http_request_seconds",
    "Seconds until the answer's headers, in this process",
    ["method", "route"],
    registry=PROCESS,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
LOOPBACK = {"127.0.0.1", "::1"}
# Who sends one of these speaks for somebody else.
FORWARDING = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via")


class RequestMetricsMiddleware(MiddlewareMixin):
    """Counts by the route's pattern, never by the path: a scanner must not make a series per guess."""

    def process_request(self, request: HttpRequest) -> None:
        request.metrics_started = time.perf_counter()  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        took_s = time.perf_counter() - request.metrics_started  # type: ignore[attr-defined]
        method = request.method if request.method in METHODS else "other"
        route = request.resolver_match.route if request.resolver_match else "none"
        REQUESTS.labels(method, route, str(response.status_code)).inc()
        LATENCY.labels(method, route).observe(took_s)
        return response


def may_read(request: HttpRequest) -> bool:
    """From this machine itself, or with the token."""
    if token := settings.METRICS_TOKEN:
        given = request.headers.get("Authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return True
    forwarded = settings.BEHIND_TLS_PROXY or any(name in request.headers for name in FORWARDING)
    return request.META.get("REMOTE_ADDR") in LOOPBACK and not forwarded


def answer(request: HttpRequest) -> HttpResponse | None:
    """None for whoever may not read it: to them it is not there."""
    if not may_read(request):
        return None
    return HttpResponse(generate_latest(PROCESS) + generate_latest(site()), content_type=CONTENT_TYPE_LATEST)


def site() -> CollectorRegistry:
    """The rows' metrics, read now; while the database is away only that."""
    try:
        families, up = run_metrics(), 1
    except DatabaseError as exc:
        log.warning("metrics: %s", exc)
        families, up = [], 0
    families.append(GaugeMetricFamily("staffloop_database_up", "1 if the database answered", value=up))
    registry = CollectorRegistry()
    registry.register(_Once(families))
    return registry


class _Once:
    """Families that are there already, as a collector."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families
