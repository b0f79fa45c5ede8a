"""/healthz and /readyz: who lives, who is ready, and what is wrong in words for anyone."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from django.db.utils import OperationalError
from django.test import Client

from labs.models import Worker
from labs.scheduling import register_worker
from simworkers import catalog


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that answers is waited for, however busy this machine."""
    monkeypatch.setattr("config.health.BROKER_PATIENCE_S", 60.0)


def problem(client: Client, check: str) -> str:
    """The problem of one check; every other check must be well."""
    answer = client.get("/readyz")
    checks = answer.json()["checks"]
    assert answer.status_code == 503
    assert [name for name, one in checks.items() if not one["ok"]] == [check]
    return str(checks[check]["problem"])


@pytest.fixture
def worker(db: None) -> Worker:
    return register_worker(slots=2)


def test_healthz_asks_no_database_needs_no_login_and_no_host_name(client: Client) -> None:
    # Without the db fixture every query would be refused.
    answer = client.get("/healthz", headers={"host": "10.1.2.3:8000"})
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert answer["Cache-Control"] == "no-store"


def test_probes_are_not_redirected_to_https(client: Client, settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert Client().get("/healthz").status_code == 200


def test_probes_are_read_and_not_written(client: Client) -> None:
    assert client.post("/healthz").status_code == 405


def test_a_site_with_everything_is_ready_and_says_what_it_found(client: Client, worker: Worker) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    checks = answer.json()["checks"]
    assert answer.json()["status"] == "ready"
    assert checks["workers"] | {"ms": 0} == {"ok": True, "live": 1, "slots": 2, "ms": 0}
    assert checks["broker"]["transport"] == "filesystem"
    assert answer["Cache-Control"] == "no-store"


def test_without_a_live_worker_it_is_not_ready(client: Client, worker: Worker) -> None:
    Worker.objects.update(seen_at=Now() - timedelta(minutes=5))
    assert problem(client, "workers") == "no worker has reported itself lately"


def test_with_workers_of_another_version_alone_it_is_not_ready(client: Client, worker: Worker) -> None:
    Worker.objects.update(engine_versions=dict.fromkeys(catalog.job_names(), "older"))
    labs = ", ".join(catalog.job_names())
    assert problem(client, "workers") == f"no live worker computes this version of: {labs}"


def test_a_missing_migration_is_named(client: Client, worker: Worker) -> None:
    MigrationRecorder(connection).record_unapplied("labs", "0003_scheduling")
    assert problem(client, "migrations") == "1 migration(s) are not applied: labs.0003_scheduling"


def test_a_migration_of_a_newer_version_is_no_obstacle_to_this_one(client: Client, worker: Worker) -> None:
    MigrationRecorder(connection).record_applied("labs", "9999_from_the_future")
    assert client.get("/readyz").status_code == 200


def test_a_broken_broker_is_said_without_its_address(
    client: Client, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError("amqp://user:secret@host refused")

    monkeypatch.setattr("config.health.greet_broker", refuse)
    assert problem(client, "broker") == "the broker cannot be reached (OSError)"


def test_a_broker_that_hangs_is_given_up_after_a_second(
    client: Client, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = threading.Event()
    monkeypatch.setattr("config.health.BROKER_PATIENCE_S", 1.0)
    monkeypatch.setattr("config.health.greet_broker", lambda: let_go.wait(120))
    try:
        assert problem(client, "broker") == "the broker does not answer within 1 s"
    finally:
        let_go.set()


def test_without_a_database_it_says_so_and_does_not_break(
    client: Client, monkeypatch: pytest.MonkeyPatch, db: None
) -> None:
    def gone(*args: Any) -> None:
        raise OperationalError("connection to server at db.internal, user staffloop, failed")

    with connection.execute_wrapper(gone):
        answer = client.get("/readyz")
    assert answer.status_code == 503
    checks = answer.json()["checks"]
    assert checks["broker"]["ok"]
    for name in ("database", "migrations", "workers"):
        assert checks[name]["problem"] == "the database does not answer"
    assert "db.internal" not in answer.content.decode()
