"""The warm server behind supervised children: who starts it, and that nobody outlives who asked."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labs import runner
from labs.runner import JobFailed, JobStopped, WarmServer, start_with_beats
from tests.labs.supervision import (
    ROOMY,
    SERVER_ARGUMENTS,
    all_end,
    go_on,
    read_pids,
)


@pytest.fixture
def own_server() -> Iterator[WarmServer]:
    """For tests that kill it."""
    server = WarmServer(*SERVER_ARGUMENTS)
    yield server
    server.stop()


def test_threads_that_start_at_once_share_one_server(own_server: WarmServer) -> None:
    parents: set[int] = set()

    def ask_once() -> None:
        parents.add(runner.call("describe", {}, limits=ROOMY, on_beat=go_on, server=own_server)["parent"])

    threads = [threading.Thread(target=ask_once) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parents == {own_server.pid}


# Who dies with whom


def test_killing_the_server_ends_the_run_as_our_fault_and_leaves_nobody(
    own_server: WarmServer, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"

    def kill_the_server(seen: Any) -> bool:
        if pids.exists() and own_server.pid is not None:
            os.kill(own_server.pid, signal.SIGKILL)
        return True

    with pytest.raises(JobFailed, match="server died") as failure:
        runner.call(
            "hang_with_grandchild",
            {"pid_file": str(pids)},
            limits=ROOMY,
            on_beat=kill_the_server,
            beat_s=0.05,
            server=own_server,
        )
    assert failure.value.kind == "crash"
    assert all_end(*read_pids(pids))


def test_a_server_found_dead_is_replaced_unnoticed(own_server: WarmServer) -> None:
    own_server.start()
    first = own_server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert runner.call("count", {"steps": 1}, limits=ROOMY, on_beat=go_on, server=own_server) == {"steps": 1}
    assert own_server.pid not in (None, first)


def test_stopping_the_server_ends_its_calls_and_removes_its_folder(tmp_path: Path) -> None:
    server = WarmServer(*SERVER_ARGUMENTS)
    server.start()
    pid, folder = server.pid, server._folder
    assert pid is not None and folder is not None and folder.stat().st_mode & 0o777 == 0o700
    failures: list[BaseException] = []

    def ask_and_note() -> None:
        try:
            kwargs = {"pid_file": str(tmp_path / "pids")}
            runner.call("hang_with_grandchild", kwargs, limits=ROOMY, on_beat=go_on, server=server)
        except JobFailed as failure:
            failures.append(failure)

    thread = threading.Thread(target=ask_and_note)
    thread.start()
    pids = read_pids(tmp_path / "pids")
    server.stop()
    thread.join()
    assert len(failures) == 1
    assert all_end(pid, *pids)
    assert not folder.exists()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A Unix socket's path may have 107 characters."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


CLIENT = """
import sys
from labs import runner
server = runner.WarmServer(*sys.argv[2:])
server.start()
print(server.pid, flush=True)
runner.call("hang_with_grandchild", {"pid_file": sys.argv[1]}, limits=runner.Limits(60, 2**28),
            on_beat=lambda seen: True, server=server)
"""


def test_killing_the_client_process_leaves_neither_child_nor_server(
    tmp_path: Path, short_folder: Path
) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(tmp_path / "pids"), *SERVER_ARGUMENTS],
        cwd=runner.ROOT,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(short_folder)},
    )
    assert client.stdout is not None
    server_pid = int(client.stdout.readline())
    pids = read_pids(tmp_path / "pids")
    client.kill()
    client.wait()
    client.stdout.close()
    assert all_end(server_pid, *pids)
    assert not list(short_folder.glob("staffloop-*")), "the server should remove its socket's folder"


def test_a_forked_process_starts_its_own_server_and_lets_the_parents_go(own_server: WarmServer) -> None:
    own_server.start()
    parents = own_server.pid
    assert parents is not None
    read_end, write_end = os.pipe()
    worker = os.fork()
    if worker == 0:  # as a prefork worker does
        try:
            answer = runner.call("describe", {}, limits=ROOMY, on_beat=go_on, server=own_server)
            own_server.stop()
            os.write(write_end, str(answer["parent"]).encode())
        finally:
            os._exit(0)
    os.close(write_end)  # so that a child which fails is an end and no endless wait
    assert int(os.read(read_end, 100)) != parents
    os.waitpid(worker, 0)
    os.close(read_end)
    assert own_server.pid == parents


def test_the_parents_server_ends_with_the_parent_although_a_fork_lives_on(own_server: WarmServer) -> None:
    own_server.start()
    server_pid = own_server.pid
    assert server_pid is not None
    fork = os.fork()
    if fork == 0:
        time.sleep(60)
        os._exit(0)
    try:
        time.sleep(0.1)
        process = own_server._process
        assert process is not None and process.stdin is not None
        process.stdin.close()
        assert all_end(server_pid)
    finally:
        os.kill(fork, signal.SIGKILL)
        os.waitpid(fork, 0)


def test_a_server_that_cannot_start_is_a_crash_and_not_a_hang() -> None:
    server = WarmServer("--preload", "no_such_module")
    with pytest.raises(JobFailed, match="did not come up") as failure:
        server.start()
    assert failure.value.kind == "crash"
    assert server.pid is None


def test_beats_go_on_while_the_server_starts() -> None:
    class SlowServer(WarmServer):
        def start(self) -> None:
            time.sleep(0.3)
            super().start()
            started.set()

    started = threading.Event()

    server = SlowServer("--entries", "tests.simworkers.forkserver_entries")
    beats: list[object] = []

    def few_beats(steps: tuple[int, int] | None) -> bool:
        beats.append(steps)
        return len(beats) < 3

    try:
        with pytest.raises(JobStopped):
            start_with_beats(server, few_beats, beat_s=0.05)
    finally:
        started.wait(120)
        server.stop()
    assert beats == [None] * 3
