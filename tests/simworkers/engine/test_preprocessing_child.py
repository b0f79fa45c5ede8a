"""Preprocessing from inside a simulation's process, with its memory limit and its process group."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.simworkers.engine.preprocessing_entries import ENTRIES

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tests.simworkers.engine.preprocessing_entries"


@pytest.fixture(scope="module")
def socket_path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server") / "private"
    folder.mkdir(mode=0o700)
    options = ["--socket", str(folder / "s"), "--preload", MODULE, "--entries", MODULE]
    server = subprocess.Popen(
        [sys.executable, "-m", "simworkers.forkserver", *options],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None and server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    yield folder / "s"
    server.stdin.close()
    server.wait(timeout=120)
    server.stdout.close()


def call(path, entry, **kwargs):
    assert entry in ENTRIES
    limits = {"time_s": 30, "memory_bytes": 512 * 2**20}
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(120)
    link.connect(str(path))
    link.sendall(json.dumps({"entry": entry, "kwargs": kwargs, "limits": limits}).encode() + b"\n")
    return link


def wait_until(happened):
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_pool_works_under_the_memory_limit_of_a_run_and_in_its_group(socket_path):
    with call(socket_path, "preprocess") as link:
        data = b"".join(iter(lambda: link.recv(2**16), b""))
    result = next(json.loads(line)["result"] for line in data.split(b"\n") if b'"result"' in line)
    assert result["tokens"] == [45 * 28] * 4
    assert set(result["groups"]) == {result["own"]}


def test_the_workers_of_a_cancelled_run_die_with_it(socket_path, tmp_path):
    pid_file = tmp_path / "pid"
    with call(socket_path, "preprocess_and_hang", pid_file=str(pid_file)):
        wait_until(pid_file.exists)
        stat = Path(f"/proc/{pid_file.read_text()}/stat")
        assert stat.exists()
    wait_until(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")
