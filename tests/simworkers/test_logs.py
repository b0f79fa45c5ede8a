"""Log lines and the ids that ride along."""

import json
import logging
import sys

import pytest

from simworkers import logs


@pytest.fixture(autouse=True)
def unnamed_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test before these may have made this process a worker, which its lines say from then on."""
    monkeypatch.setattr(logs, "_of_process", {})


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("labs.execution", logging.INFO, __file__, 1, message, (), None)
    made.__dict__.update(fields)
    return made


def test_a_line_for_people_ends_with_the_ids_that_it_does_not_name_itself():
    with logs.bind(run="r-1", request="q-1"):
        line = logs.formatter("lines").format(record("run r-1: try 1"))
    assert line.endswith("INFO    labs.execution: run r-1: try 1 [request=q-1]")


def test_a_line_without_ids_is_left_alone():
    assert logs.formatter("lines").format(record("ready")).endswith("labs.execution: ready")


def test_a_json_line_is_one_object_with_ids_whatever_the_message_holds():
    with logs.bind(run="r-1"):
        line = logs.formatter("json").format(record('two\nlines and a "quote" é'))
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["run"], entry["message"], entry["level"]) == ("r-1", 'two\nlines and a "quote" é', "info")
    assert entry["time"].endswith("+00:00")


def test_an_exception_stays_within_its_line():
    try:
        raise ValueError("no")
    except ValueError:
        line = logs.formatter("json").format(record("broke", exc_info=sys.exc_info()))
    assert "\n" not in line
    assert "ValueError: no" in json.loads(line)["exception"]


def test_what_is_bound_inside_ends_there_and_none_takes_away():
    with logs.bind(run="r-1", request="q-1"):
        with logs.bind(run="r-2", request=None):
            assert logs.ids() == {"run": "r-2"}
        assert logs.ids() == {"run": "r-1", "request": "q-1"}
    assert logs.ids() == {}


def test_rebinding_forgets_what_was_bound_before():
    with logs.bind(run="r-1"):
        logs.rebind(request="q-2")
        assert logs.ids() == {"request": "q-2"}


@pytest.mark.parametrize("bad", ["", "two words", "line\nbreak", "x" * 129, "é", "-dash"])
def test_what_cannot_be_an_id_is_not_taken_from_another_process(bad):
    assert logs.checked_ids({"run": "r-1", "request": bad, bad: "r-2"}) == {"run": "r-1"}


@pytest.mark.parametrize("bad", [None, [], "run", 3])
def test_ids_that_are_no_ids_at_all_are_none(bad):
    assert logs.checked_ids(bad) == {}
