"""/metrics: who may read it, and what a process counts of its own requests."""

from typing import Any

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.test import Client

from config import metrics

TOKEN = "a-token-long-enough"


def test_this_machine_reads_prometheus_text(client: Client, db: None) -> None:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert "staffloop_database_up 1.0" in answer.content.decode()


@pytest.mark.parametrize(
    "caller",
    [
        {"REMOTE_ADDR": "10.1.2.3"},
        {"REMOTE_ADDR": ""},
        {"HTTP_X_FORWARDED_FOR": "127.0.0.1"},  # a proxy on this machine speaks for somebody else
        {"HTTP_FORWARDED": "for=127.0.0.1"},
        {"HTTP_VIA": "1.1 proxy"},
        {"REMOTE_ADDR": "10.1.2.3", "HTTP_AUTHORIZATION": "Bearer "},
        {"REMOTE_ADDR": "10.1.2.3", "HTTP_AUTHORIZATION": "Bearer guess"},
    ],
)
def test_for_anyone_else_there_is_no_such_page(client: Client, db: None, caller: dict[str, Any]) -> None:
    answer = client.get("/metrics", **caller)
    assert answer.status_code == 404
    assert "staffloop_database_up" not in answer.content.decode()


def test_behind_a_proxy_that_adds_no_header_a_setting_closes_it(
    client: Client, db: None, settings: Any
) -> None:
    settings.BEHIND_TLS_PROXY = True
    assert client.get("/metrics").status_code == 404


def test_the_token_opens_it_from_anywhere(client: Client, db: None, settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN
    right: dict[str, Any] = {"REMOTE_ADDR": "10.1.2.3", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}
    assert client.get("/metrics", **right).status_code == 200
    assert client.get("/metrics", **right | {"HTTP_AUTHORIZATION": "Bearer é"}).status_code == 404
    assert client.get("/metrics", **right | {"HTTP_AUTHORIZATION": TOKEN}).status_code == 404


def test_while_the_database_is_away_the_process_still_tells_of_itself(client: Client, db: None) -> None:
    def gone(*args: Any) -> None:
        raise OperationalError("gone")

    with connection.execute_wrapper(gone):
        said = client.get("/metrics").content.decode()
    assert "staffloop_database_up 0.0" in said
    assert "process_resident_memory_bytes" in said


def test_requests_are_counted_by_route_and_not_by_path(client: Client, db: None) -> None:
    def count(route: str, status: str) -> float:
        labels = {"method": "GET", "route": route, "status": status}
        return metrics.PROCESS.get_sample_value("staffloop_http_requests_total", labels) or 0.0

    before = count("none", "404"), count("api/v1/tasks/", "401")
    client.get("/no/such/page-1")
    client.get("/no/such/page-2")
    client.get("/api/v1/tasks/")
    assert (count("none", "404"), count("api/v1/tasks/", "401")) == (before[0] + 2, before[1] + 1)
    assert "page-1" not in client.get("/metrics").content.decode()


def test_probes_are_not_counted(client: Client, db: None) -> None:
    client.get("/healthz")
    said = client.get("/metrics").content.decode()
    assert "healthz" not in said and 'route="metrics"' not in said


def test_a_made_up_method_makes_no_series_of_its_own(client: Client, db: None) -> None:
    client.generic("BREW", "/")
    assert "BREW" not in client.get("/metrics").content.decode()
