"""Warm servers for tests, and whether processes live."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labs import runner
from labs.runner import Limits

MIB = 2**20
ROOMY = Limits(time_s=60, memory_bytes=512 * MIB)
SERVER_ARGUMENTS = ("--entries", "tests.simworkers.forkserver_entries", "--preload", "torch")


def go_on(progress: Any) -> bool:
    return True


def note_in(beats: list[Any]) -> runner.Beat:
    def note(progress: Any) -> bool:
        beats.append(progress)
        return True

    return note


Ask = Callable[..., Any]


def is_alive(pid: int) -> bool:
    """Whether it runs; a zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_end(*pids: int, within_s: float = 60.0) -> bool:
    deadline = time.monotonic() + within_s
    while any(map(is_alive, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def read_pids(path: Path, within_s: float = 30.0) -> list[int]:
    deadline = time.monotonic() + within_s
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)
    return [int(word) for word in path.read_text().split()]
