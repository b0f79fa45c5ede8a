"""The demo as a newcomer starts it: twice, beside a busy port, from a shell that is meant for another site."""

import contextlib
import socket

import pytest

from demo import showing, site
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
    own = {"STAFFLOOP_VAR", "STAFFLOOP_RUN_TIME_LIMIT_S", "LOG_LEVEL"}
    assert {name for name in names if name in passed} == own
    assert "another's" not in passed.values()
    assert "PATH" in passed


METRICS = {
    "speedup": {"unit": "ratio"},
    "hit_rate": {"unit": "fraction"},
    "waited_tokens_per_s": {"unit": "tokens/s"},
    "fault_turn": {"unit": "turn"},
}
TASK = {
    "open_parameters": {
        "properties": {"host_gb": {"unit": "GB"}, "prefill_cap_tokens": {"zero": "no limit"}}
    },
    "prediction": {
        "properties": {
            "hit_rate": {"unit": "fraction"},
            "waited_tokens_per_s": {"unit": "tokens/s", "label": "Output tokens per second of waiting"},
            "turn": {"unit": "turn"},
        }
    },
}


def test_a_decision_is_printed_in_the_words_and_units_of_the_tasks_schemas(
    capsys: pytest.CaptureFixture[str],
) -> None:
    params = {"host_gb": 75, "prefill_cap_tokens": 0}
    showing.show_decision(TASK, {"params": params, "prediction": {"hit_rate": 0.8333333333}})
    assert capsys.readouterr().out.splitlines() == [
        "  params      Host: 75 GB; Prefill cap tokens: no limit",
        "  prediction  Hit rate: 83.33%",
    ]


def test_numbers_of_a_result_are_printed_as_pages_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    check = [
        {"field": "hit_rate", "metric": "hit_rate", "predicted": 0.9, "actual": 0.919638076815531},
        {
            "field": "waited_tokens_per_s",
            "metric": "waited_tokens_per_s",
            "predicted": 40.0,
            "actual": 59.47389084733096,
        },
        {"field": "turn", "metric": "fault_turn", "predicted": 6, "actual": 6},
    ]
    run = {
        "state": "graded",
        "prediction_check": check,
        "metrics": {"speedup": 2.6701},
        "criteria": [],
        "figures": [],
    }
    showing.show_result(run, TASK, METRICS)
    assert capsys.readouterr().out.splitlines() == [
        "  predicted   Hit rate: 90%, came out 91.96%",
        "  predicted   Output tokens per second of waiting: 40 tokens/s, came out 59.47 tokens/s",
        "  predicted   Turn: 6, came out 6",
        "  Speedup                     2.67",
    ]


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
