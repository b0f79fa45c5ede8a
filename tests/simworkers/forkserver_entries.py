"""What the tests of the warm server have it do: things that go wrong in every way."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from simworkers.job_entries import InvalidCall, Progress

_warmed_by: list[int] = []  # process ids


def warm() -> None:
    """Called by the server itself, after the import and before the first fork."""
    _warmed_by.append(os.getpid())


def warmed(progress: Progress) -> dict[str, Any]:
    return {"by": _warmed_by, "parent": os.getppid()}


def count(progress: Progress, steps: int, pause_s: float = 0.0) -> dict[str, Any]:
    for step in range(steps):
        time.sleep(pause_s)
        progress(step + 1, steps)
    return {"steps": steps}


def describe(progress: Progress) -> dict[str, Any]:
    """The child's own view of itself."""
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "environment": dict(os.environ),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "torch_threads": torch.get_num_threads(),
        "files": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir()),
        "folder": str(Path.cwd()),
    }


def hang_with_grandchild(progress: Progress, pid_file: str) -> None:
    """Fork a grandchild, note both numbers, hang in both."""
    grandchild = os.fork()
    if grandchild == 0:
        time.sleep(3600)
    Path(pid_file).with_suffix(".draft").write_text(f"{os.getpid()} {grandchild}")
    Path(pid_file).with_suffix(".draft").rename(pid_file)
    time.sleep(3600)


def leave_grandchild(progress: Progress) -> int:
    """Return while a grandchild, which holds the connection too, still runs."""
    grandchild = os.fork()
    if grandchild == 0:
        time.sleep(3600)
    return grandchild


def take_memory(progress: Progress, mebibytes: int, with_torch: bool) -> int:
    held: list[Any] = []
    for _ in range(mebibytes // 8):
        held.append(torch.ones(2**21) if with_torch else bytearray(2**23))
        progress(len(held), mebibytes // 8)
    return len(held)


def matmul(progress: Progress, size: int) -> float:
    return float((torch.ones(size, size) @ torch.ones(size, size)).sum())


def give(progress: Progress, what: str) -> Any:
    return {
        "nan": {"metrics": [1.0, float("nan")]},
        "infinity": float("inf"),
        "set": {1, 2},
        "large": "x" * 3_000_000,
        "text": "größer\nals",
    }[what]


def die(progress: Progress, how: str) -> None:
    if how == "refuse":
        raise InvalidCall("num_gpus: must divide num_experts")
    if how == "raise":
        raise ZeroDivisionError("by our mistake")
    if how == "exit":
        os._exit(3)
    if how == "sys.exit":
        sys.exit(0)
    os.kill(os.getpid(), signal.Signals[how])
    time.sleep(10)


def print_much(progress: Progress) -> str:
    for _ in range(20_000):
        print("a job that talks to its standard output")
    return "said"


def render(progress: Progress) -> int:
    """Draw a bar with the renderer that figures use; returns the picture's length."""
    import vl_convert

    spec = {
        "data": {"values": [{"a": 1}]},
        "mark": "bar",
        "encoding": {"x": {"field": "a", "type": "quantitative"}},
    }
    return len(vl_convert.vegalite_to_svg(spec))


ENTRIES = {
    entry.__name__: entry
    for entry in (
        warmed,
        count,
        describe,
        hang_with_grandchild,
        leave_grandchild,
        take_memory,
        matmul,
        give,
        die,
        print_much,
        render,
    )
}
