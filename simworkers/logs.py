"""Log lines that say what they are about: the ids of run, attempt, request and worker ride along.

Standard library alone, because the web process, the worker and the simulation's child all write these lines. Ids are
bound where they become known; every line written below carries them, one of a library too.
"""

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

FORMATS = ("lines", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
HUMAN = "{asctime} {levelname:<7} {name}: {message}"
# What may stand in an id: it goes into headers, messages and other people's terminals.
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}")

_of_process: dict[str, str] = {}
_bound: ContextVar[Mapping[str, str]] = ContextVar("log_ids", default={})  # noqa: B039 - never changed in place


def ids() -> dict[str, str]:
    """What is bound here and now, the process's own ids first."""
    return {**_of_process, **_bound.get()}


def name_process(**names: str) -> None:
    """Ids of every line that this process and those forked from it write from now on."""
    _of_process.update(names)


def rebind(**names: str) -> None:
    """Ids of every line from here on, instead of those so far: where beginning and end lie in two functions."""
    _bound.set(names)


@contextmanager
def bind(**names: str | None) -> Iterator[None]:
    """Ids of every line written inside. None takes an id away."""
    merged = {**_bound.get(), **{name: value for name, value in names.items() if value is not None}}
    kept = {name: value for name, value in merged.items() if name not in names or names[name] is not None}
    token = _bound.set(kept)
    try:
        yield
    finally:
        _bound.reset(token)


def checked_ids(given: object) -> dict[str, str]:
    """Ids that came from another process, without what cannot be one."""
    if not isinstance(given, dict):
        return {}
    pairs = ((str(name), str(value)) for name, value in given.items())
    return {name: value for name, value in pairs if ID.fullmatch(name) and ID.fullmatch(value)}


class HumanLines(logging.Formatter):
    """One line for people; ids that the message does not name itself follow in brackets."""

    def __init__(self) -> None:
        super().__init__(HUMAN, style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        missing = [f"{name}={value}" for name, value in ids().items() if value not in record.message]
        return f"{line} [{' '.join(missing)}]" if missing else line


class JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message, pid, the ids, and an exception's traceback."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
            **ids(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def formatter(log_format: str) -> logging.Formatter:
    """For "json" JSON lines, else lines for people."""
    return JsonLines() if log_format == "json" else HumanLines()


def write_to_stderr(log_format: str, level: str) -> None:
    """Everything at `level` and above to stderr: for a process that has no other configuration."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(log_format))
    logging.basicConfig(
        handlers=[handler], level=level.upper() if level.upper() in LEVELS else "INFO", force=True
    )
