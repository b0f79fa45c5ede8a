"""What a machine lacks of a site's servers is told whole."""

import pytest

from tests.faults.servers import free_port
from tests.services import conftest


@pytest.mark.parametrize(("broker", "title"), [("redis", "Redis"), ("rabbitmq", "RabbitMQ")])
def test_where_both_servers_are_away_both_are_named(broker, title, monkeypatch):
    away = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr(conftest, "DATABASE_URL", f"postgres://postgres@{away}/postgres")
    monkeypatch.setattr(conftest, "REDIS_URL", f"redis://{away}/0")
    monkeypatch.setattr(conftest, "AMQP_URL", f"amqp://guest:guest@{away}//")
    named = [what.partition(":")[0] for what in conftest.servers_lacking(broker)]
    assert named[:2] == ["PostgreSQL at 127.0.0.1", title]
