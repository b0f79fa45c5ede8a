"""A whole site on real servers: a database, a Redis server and a RabbitMQ host of its own, removed afterwards.

PostgreSQL and RabbitMQ are found by STAFFLOOP_TEST_DATABASE_URL and STAFFLOOP_TEST_AMQP_URL, without them on this
machine's usual ports; `.ci/services` starts them. Redis is started here, or is the number that
STAFFLOOP_TEST_REDIS_URL names.
"""

import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

import amqp
import psycopg
import pytest
import redis

from tests.faults.servers import Redis, die_with_me, is_installed
from tests.journeys.conftest import ROOT, Site, end
from tests.requirements import require_none

DATABASE_URL = os.environ.get("STAFFLOOP_TEST_DATABASE_URL", "postgres://postgres@127.0.0.1:5432/postgres")
REDIS_URL = os.environ.get("STAFFLOOP_TEST_REDIS_URL", "")
AMQP_URL = os.environ.get("STAFFLOOP_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//")


@dataclass
class RealSite:
    """A site, and where its database and broker are."""

    site: Site
    database_url: str
    broker_url: str

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url) as link:
            return link.execute(query.encode(), values).fetchall()


def servers_lacking(broker: str) -> list[str]:
    """What this machine lacks of all that a site with this broker needs, and why."""
    return [*postgres_lacking(), *BROKERS_LACKING[broker]()]


def postgres_lacking() -> list[str]:
    try:
        psycopg.connect(DATABASE_URL, connect_timeout=15).close()
    except psycopg.OperationalError as error:
        return [f"PostgreSQL at {urlsplit(DATABASE_URL).hostname}: {error}"]
    return []


def redis_lacking() -> list[str]:
    if not REDIS_URL:
        return [] if is_installed("redis-server") else ["Redis: redis-server is not installed"]
    try:
        with redis.Redis.from_url(REDIS_URL, socket_connect_timeout=15) as client:
            client.ping()
    except redis.exceptions.ConnectionError as error:
        return [f"Redis: {error}"]
    return []


def rabbitmq_lacking() -> list[str]:
    parts, found = urlsplit(AMQP_URL), []
    try:
        with amqp.Connection(
            host=f"{parts.hostname}:{parts.port or 5672}",
            userid=parts.username or "guest",
            password=parts.password or "guest",
        ) as link:
            link.connect()
    except OSError as error:
        found.append(f"RabbitMQ: {error}")
    if shutil.which("rabbitmqctl") is None or os.getuid() != 0:
        found.append("rabbitmqctl, and root to use it")
    return found


BROKERS_LACKING = {"redis": redis_lacking, "rabbitmq": rabbitmq_lacking}


@contextmanager
def own_database() -> Iterator[str]:
    name = f"staffloop_{secrets.token_hex(4)}"
    with psycopg.connect(DATABASE_URL, autocommit=True, connect_timeout=15) as link:
        link.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield urlunsplit(urlsplit(DATABASE_URL)._replace(path=f"/{name}"))
        finally:
            link.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def own_redis() -> Iterator[str]:
    """A server of ours, or an empty number of the one that is named; what lies in it is no concern of ours."""
    if not REDIS_URL:
        with TemporaryDirectory(prefix="staffloop-redis-") as folder:
            server = Redis(Path(folder))
            server.start()
            try:
                yield server.url
            finally:
                server.stop()
        return
    client = redis.Redis.from_url(REDIS_URL, socket_connect_timeout=15)
    used = client.dbsize()
    assert not used, f"{REDIS_URL} holds {used} keys; name an empty number in STAFFLOOP_TEST_REDIS_URL"
    try:
        yield REDIS_URL
    finally:
        client.flushdb()
        client.close()


@contextmanager
def own_rabbitmq() -> Iterator[str]:
    parts = urlsplit(AMQP_URL)
    host = f"staffloop-{secrets.token_hex(4)}"
    control("add_vhost", host)
    try:
        control("set_permissions", "-p", host, parts.username or "guest", ".*", ".*", ".*")
        yield urlunsplit(parts._replace(path=f"/{host}"))
    finally:
        control("delete_vhost", host)


def control(*arguments: str) -> None:
    subprocess.run(["rabbitmqctl", "-q", *arguments], check=True, capture_output=True, timeout=180)


BROKERS = {"redis": own_redis, "rabbitmq": own_rabbitmq}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in BROKERS]
)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSite]:
    require_none(servers_lacking(request.param))
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        database_url = stack.enter_context(own_database())
        broker_url = stack.enter_context(BROKERS[request.param]())
        environment = {
            **os.environ,
            "DATABASE_URL": database_url,
            "BROKER_URL": broker_url,
            "SECRET_KEY": "for tests alone, long enough to be accepted",
            "STAFFLOOP_OPEN_REGISTRATION": "1",
            "SECURE_COOKIES": "0",
            "STAFFLOOP_VAR": str(folder),
            "STAFFLOOP_RUN_TIME_LIMIT_S": "600",
            "STAFFLOOP_RUN_LEASE_S": "10",
            "STAFFLOOP_SWEEP_INTERVAL_S": "1",
            "PYTHONUNBUFFERED": "1",
        }
        site = stack.enter_context(served(folder, environment))
        yield RealSite(site, database_url, broker_url)


@contextmanager
def served(folder: os.PathLike[str], environment: dict[str, str]) -> Iterator[Site]:
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "bootstrap"], env=environment, check=True, capture_output=True)
    command = [*manage, "serve", "--port", "0", "--workers", "2"]
    server = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_me()
    )
    assert server.stdout is not None
    site = Site(ROOT.joinpath(folder))
    reader = threading.Thread(target=site.listen, args=(server.stdout,), daemon=True)
    reader.start()
    try:
        assert site.answers.wait(120), "the site did not start"
        yield site
    finally:
        end(server)
        reader.join()
        server.stdout.close()
