"""A database that is away is 503 with Retry-After everywhere, and nothing else is."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.utils import DatabaseErrorWrapper

from config.outages import is_away
from tests.requirements import require

ROOT = Path(__file__).resolve().parents[2]
SERVER = os.environ.get("STAFFLOOP_TEST_DATABASE_URL", "postgres://postgres@127.0.0.1:5432/postgres")

# A whole web process whose DATABASE_URL names nobody: [path, status, type, Retry-After] of every request.
ASK = """
import json, django
django.setup()
from django.test import Client
KEYED = {"HTTP_IDEMPOTENCY_KEY": "one"}
client = Client(raise_request_exception=False, headers={"authorization": "Bearer " + "a" * 64})
session = Client(raise_request_exception=False)
session.cookies["sessionid"] = "a" * 32
PASSWORD = {"username": "ada", "password": "violet-turbine-41"}
answers = [
    client.get("/api/v1/labs/"),
    client.post("/api/v1/labs/moe-eplb/runs/", {"params": {}}, content_type="application/json", **KEYED),
    client.post("/api/v1/tokens/", PASSWORD, content_type="application/json"),
    session.get("/"),
    session.get("/labs/moe-eplb/"),
    session.post("/accounts/login/", PASSWORD),
    session.get("/admin/"),
    session.get("/healthz"),
]
print(json.dumps([
    [a.request["PATH_INFO"], a.status_code, a.headers["Content-Type"].partition(";")[0], a.headers.get("Retry-After")]
    for a in answers
]))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, str, str | None]]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]  # free again, and refused, from here on
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": f"postgres://staffloop@127.0.0.1:{nobody}/staffloop",
        "SECRET_KEY": "for tests alone, long enough to be accepted",
        "ALLOWED_HOSTS": "testserver",
        "STAFFLOOP_VAR": str(tmp_path_factory.mktemp("var")),
        "SECURE_COOKIES": "0",
    }
    manage = [sys.executable, str(ROOT / "manage.py"), "collectstatic", "--noinput"]
    subprocess.run(manage, env=environment, check=True, capture_output=True, timeout=300)
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return [tuple(row) for row in json.loads(done.stdout)]


def test_the_api_answers_a_problem_document_that_says_when_to_come_back(answers):
    found = {row[1:] for row in answers if row[0].startswith("/api/")}
    assert found == {(503, "application/problem+json", "5")}


def test_pages_and_the_admin_answer_a_plain_page(answers):
    pages = [row for row in answers if not row[0].startswith(("/api/", "/healthz"))]
    assert len(pages) == 4
    assert {row[1:] for row in pages} == {(503, "text/html", "5")}


def test_the_process_itself_is_still_healthy(answers):
    assert answers[-1][:2] == ("/healthz", 200)


def test_a_connection_that_the_server_ends_is_an_outage():
    try:
        mine, other = psycopg.connect(SERVER, autocommit=True), psycopg.connect(SERVER, autocommit=True)
    except psycopg.OperationalError as error:
        require(False, f"PostgreSQL at {urlsplit(SERVER).hostname}: {error}")
        raise
    with other:
        other.execute("SELECT pg_terminate_backend(%s)", [mine.info.backend_pid])
        assert is_away(django_error(lambda: mine.execute("SELECT 1")))
        assert is_away(django_error(lambda: mine.execute("SELECT 1")))  # and the closed one ever after
        assert not is_away(django_error(lambda: other.execute("SELECT nothing")))


def test_a_missing_table_is_a_fault_of_ours_and_no_outage(db):
    with pytest.raises(DatabaseError) as caught, transaction.atomic():
        connection.cursor().execute("SELECT * FROM nothing")
    assert not is_away(caught.value)


def test_a_locked_sqlite_file_is_an_outage(tmp_path):
    with sqlite3.connect(tmp_path / "db") as one, sqlite3.connect(tmp_path / "db", timeout=0) as other:
        one.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            other.execute("BEGIN EXCLUSIVE")
    error = OperationalError(str(caught.value))
    error.__cause__ = caught.value
    assert is_away(error)


def django_error(call: Callable[[], Any]) -> DatabaseError:
    """The error as Django raises it, psycopg's being its cause."""

    class Wrapper:
        Database = psycopg
        errors_occurred = False

    with pytest.raises(DatabaseError) as caught, DatabaseErrorWrapper(Wrapper()):
        call()
    return caught.value
