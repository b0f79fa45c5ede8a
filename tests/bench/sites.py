"""A whole site for each transport, on this machine's servers, for what measures it."""

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from tests.journeys.conftest import Site
from tests.services.conftest import own_database, own_rabbitmq, own_redis, served, servers_lacking

Broker = Callable[[], AbstractContextManager[str]]
TRANSPORTS: dict[str, Broker | None] = {"embedded": None, "redis": own_redis, "rabbitmq": own_rabbitmq}
TITLES = {
    "embedded": "SQLite and a folder",
    "redis": "PostgreSQL and Redis",
    "rabbitmq": "PostgreSQL and RabbitMQ",
}
# A site of the measurement's own alone: the settings of a site that runs here must not leak in.
NOT_PASSED_ON = ("DATABASE_URL", "BROKER_URL", "CACHE_URL", "SECRET_KEY")


class Lacking(Exception):
    """A server that this machine does not have."""


@contextmanager
def bench_site(transport: str, **settings: str) -> Iterator[tuple[Site, dict[str, str]]]:
    """(site, its environment): `manage.py serve` with two slots and its defaults. Lacking without servers."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    environment |= {"STAFFLOOP_OPEN_REGISTRATION": "1", "SECURE_COOKIES": "0", "LOG_LEVEL": "ERROR"}
    environment |= {"PYTHONUNBUFFERED": "1", **settings}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="staffloop-bench-")))
        environment["STAFFLOOP_VAR"] = str(folder)
        if broker := TRANSPORTS[transport]:
            if lacking := servers_lacking(transport):
                raise Lacking(f"lacks {'; '.join(lacking)}")
            environment["DATABASE_URL"] = stack.enter_context(own_database())
            environment["BROKER_URL"] = stack.enter_context(broker())
            environment["SECRET_KEY"] = "for measurements alone, long enough to be accepted"
        yield stack.enter_context(served(folder, environment)), environment


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank: a value that was measured. ValueError without values."""
    if not values:
        raise ValueError("values: there are none")
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def load_average() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
