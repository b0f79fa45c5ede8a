"""The demo as a newcomer starts it: twice, beside a busy port, from a shell that is meant for another site."""

import contextlib
import socket

import pytest

from demo import site
from demo.__main__ import main
from tests.config.test_operations import readings

OF_ANOTHER_SITE = {
    "ALLOWED_HOSTS": "nowhere.example",
    "BROKER_URL": "amqp://guest:guest@127.0.0.1:1//",
    "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing",
    "DEBUG": "maybe",
    "SECURE_COOKIES": "true",
    "STAFFLOOP_OPEN_REGISTRATION": "false",
    "STAFFLOOP_RUN_TIME_LIMIT_S": "1",
}


def test_nothing_that_settings_read_comes_from_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(readings())
    for name in names:
        monkeypatch.setenv(name, "another's")
    passed = site.own_environment()
    assert {name for name in names if name in passed} == {"STAFFLOOP_VAR", "LOG_LEVEL"}
    assert "another's" not in passed.values()
    assert "PATH" in passed


@pytest.mark.slow
def test_the_demo_earns_its_points_twice_in_a_row_whatever_the_shell_is_set_up_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in OF_ANOTHER_SITE.items():
        monkeypatch.setenv(name, value)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # taken already, which is as good
            stack.enter_context(socket.create_server(("127.0.0.1", 8000)))
        assert [main(), main()] == [0, 0]
    assert capsys.readouterr().out.count("5 / 5 answered") == 2
