"""Calls of `python -m simworkers`, in a process of their own or in this one."""

import json
import os
import subprocess
import sys
from pathlib import Path

from simworkers.__main__ import main

ROOT = Path(__file__).parents[2]
TINY = [
    "--set",
    "tokens_per_step=128",
    "--set",
    "num_layers=1",
    "--set",
    "num_steps=1",
    "--set",
    "warmup_steps=1",
]
CASE = {"name": "a", "num_slots": 6, "num_groups": 1, "num_nodes": 1, "num_gpus": 2, "load": [[4, 1, 1, 2]]}


def shell(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "simworkers", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def refused(capsys, *arguments):
    """Lines on stderr of a call that has to be refused."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err.strip().splitlines()


def write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)
