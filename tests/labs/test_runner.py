"""The supervised child, with real processes: what comes back, and that nobody outlives who asked."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from labs import runner
from labs.runner import JobFailed, JobStopped, JobTimedOut, Limits, WarmServer, start_with_beats

MIB = 2**20
ROOMY = Limits(time_s=60, memory_bytes=512 * MIB)
SERVER_ARGUMENTS = ("--entries", "tests.simworkers.forkserver_entries", "--preload", "torch")


@pytest.fixture(scope="module")
def shared_server() -> Iterator[WarmServer]:
    server = WarmServer(*SERVER_ARGUMENTS)
    yield server
    server.stop()


@pytest.fixture
def own_server() -> Iterator[WarmServer]:
    """For tests that kill it."""
    server = WarmServer(*SERVER_ARGUMENTS)
    yield server
    server.stop()


def go_on(progress: Any) -> bool:
    return True


def note_in(beats: list[Any]) -> runner.Beat:
    def note(progress: Any) -> bool:
        beats.append(progress)
        return True

    return note


Ask = Callable[..., Any]


@pytest.fixture
def ask(shared_server: WarmServer) -> Ask:
    def ask(
        entry: str,
        *,
        limits: Limits = ROOMY,
        on_beat: runner.Beat = go_on,
        beat_s: float = 0.05,
        **kwargs: Any,
    ) -> Any:
        return runner.call(entry, kwargs, limits=limits, on_beat=on_beat, beat_s=beat_s, server=shared_server)

    return ask


def is_alive(pid: int) -> bool:
    """Whether it runs; a zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def all_end(*pids: int, within_s: float = 5.0) -> bool:
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


# What comes back


def test_a_result_and_the_progress_on_the_way_arrive(ask: Ask) -> None:
    beats: list[Any] = []
    assert ask("count", steps=10, pause_s=0.05, on_beat=note_in(beats)) == {"steps": 10}
    told = [beat for beat in beats if beat is not None]
    assert told == sorted(told)
    assert told[-1][1] == 10
    assert len(set(told)) >= 3


def test_a_beat_comes_before_any_progress_and_says_none(ask: Ask) -> None:
    beats: list[Any] = []
    ask("count", steps=1, pause_s=0.3, on_beat=note_in(beats))
    assert beats[0] is None


def test_beats_keep_their_interval_however_fast_progress_comes(ask: Ask) -> None:
    beats: list[Any] = []
    ask("count", steps=100, pause_s=0.01, beat_s=0.3, on_beat=note_in(beats))
    # About three on an idle machine; a beat for each report of progress would make a hundred.
    assert 2 <= len(beats) < 50


def test_a_large_result_and_unicode_arrive_whole(ask: Ask) -> None:
    assert len(ask("give", what="large")) == 3_000_000
    assert ask("give", what="text") == "größer\nals"


@pytest.mark.parametrize("what", ["nan", "infinity", "set"])
def test_a_result_that_is_no_strict_json_is_our_fault_and_never_a_result(ask: Ask, what: str) -> None:
    with pytest.raises(JobFailed, match="strict JSON") as failure:
        ask("give", what=what)
    assert failure.value.kind == "crash"


def test_a_refused_call_is_the_callers_mistake(ask: Ask) -> None:
    with pytest.raises(JobFailed, match="num_gpus") as failure:
        ask("die", how="refuse")
    assert failure.value.kind == "invalid"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "ZeroDivisionError: by our mistake"),
        ("exit", "exit status 3"),
        ("sys.exit", "exit status 1"),
        ("SIGKILL", "SIGKILL"),
        ("SIGSEGV", "SIGSEGV"),
        ("SIGTERM", "SIGTERM"),
    ],
)
def test_a_child_that_dies_is_a_crash_that_names_its_cause(ask: Ask, how: str, message: str) -> None:
    with pytest.raises(JobFailed, match=message) as failure:
        ask("die", how=how)
    assert failure.value.kind == "crash"


def test_an_unknown_entry_is_refused(ask: Ask) -> None:
    with pytest.raises(JobFailed, match=r"os\.system") as failure:
        ask("os.system", command="true")
    assert failure.value.kind == "invalid"


def test_a_job_that_prints_does_not_disturb_its_answer(ask: Ask) -> None:
    assert ask("print_much") == "said"


# Limits


@pytest.mark.parametrize("with_torch", [True, False])
def test_a_memory_hog_fails_alone(ask: Ask, with_torch: bool) -> None:
    steady: list[Any] = []
    other = threading.Thread(target=lambda: steady.append(ask("count", steps=20, pause_s=0.05)))
    other.start()
    with pytest.raises(JobFailed) as failure:
        ask("take_memory", mebibytes=1024, with_torch=with_torch, limits=Limits(60, 128 * MIB))
    assert failure.value.kind == "memory"
    other.join()
    assert steady == [{"steps": 20}]


def test_memory_within_the_limit_is_granted_on_top_of_what_is_warm(ask: Ask) -> None:
    assert ask("take_memory", mebibytes=96, with_torch=True, limits=Limits(60, 128 * MIB)) == 12


def test_the_renderer_of_figures_works_under_a_memory_limit_of_one_gibibyte(ask: Ask) -> None:
    assert ask("render", limits=Limits(60, 1024 * MIB)) > 500


def test_a_time_out_kills_the_child_and_the_grandchild(ask: Ask, tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(JobTimedOut):
        ask("hang_with_grandchild", pid_file=str(tmp_path / "pids"), limits=Limits(1.0, 256 * MIB))
    assert time.monotonic() - begun < 5
    assert all_end(*read_pids(tmp_path / "pids"))


def test_a_beat_that_says_no_kills_the_child_and_the_grandchild(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(JobStopped):
        ask(
            "hang_with_grandchild",
            pid_file=str(tmp_path / "pids"),
            on_beat=lambda seen: not (tmp_path / "pids").exists(),
        )
    assert all_end(*read_pids(tmp_path / "pids"))


def test_a_beat_that_raises_kills_the_child_and_passes(ask: Ask, tmp_path: Path) -> None:
    def lose_the_database(seen: Any) -> bool:
        if (tmp_path / "pids").exists():
            raise OSError("the database has gone")
        return True

    with pytest.raises(OSError, match="the database has gone"):
        ask("hang_with_grandchild", pid_file=str(tmp_path / "pids"), on_beat=lose_the_database)
    assert all_end(*read_pids(tmp_path / "pids"))


def test_what_a_finished_child_left_running_is_killed(ask: Ask) -> None:
    assert all_end(ask("leave_grandchild"))


# What the child is


def test_a_child_knows_no_secret_and_has_one_thread_and_its_own_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("DATABASE_URL", "SECRET_KEY", "BROKER_URL", "AWS_TOKEN", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    server = WarmServer(*SERVER_ARGUMENTS)
    try:
        child = runner.call("describe", {}, limits=ROOMY, on_beat=go_on, server=server)
        assert child["parent"] == server.pid
    finally:
        server.stop()
    assert "hunter2" not in child["environment"].values()
    assert child["environment"]["OMP_NUM_THREADS"] == "1"
    assert (child["threads"], child["torch_threads"]) == (1, 1)
    assert child["group"] == child["pid"]
    assert len(child["files"]) == 5, "stdin, stdout, stderr, the connection, and the listing itself"


def test_two_calls_run_side_by_side(ask: Ask) -> None:
    begun = time.monotonic()
    threads = [
        threading.Thread(target=ask, args=("count",), kwargs={"steps": 10, "pause_s": 0.1}) for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begun < 1.8


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


CLIENT = """
import sys
from labs import runner
server = runner.WarmServer(*sys.argv[2:])
server.start()
print(server.pid, flush=True)
runner.call("hang_with_grandchild", {"pid_file": sys.argv[1]}, limits=runner.Limits(60, 2**28),
            on_beat=lambda seen: True, server=server)
"""


def test_killing_the_client_process_leaves_neither_child_nor_server(tmp_path: Path) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(tmp_path / "pids"), *SERVER_ARGUMENTS],
        cwd=runner.ROOT,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert client.stdout is not None
    server_pid = int(client.stdout.readline())
    pids = read_pids(tmp_path / "pids")
    client.kill()
    client.wait()
    client.stdout.close()
    assert all_end(server_pid, *pids)
    assert not list(tmp_path.glob("staffloop-*")), "the server should remove its socket's folder"


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
    assert int(os.read(read_end, 100)) != parents
    os.waitpid(worker, 0)
    os.close(read_end)
    os.close(write_end)
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

    server = SlowServer("--entries", "tests.simworkers.forkserver_entries")
    beats: list[object] = []

    def few_beats(steps: tuple[int, int] | None) -> bool:
        beats.append(steps)
        return len(beats) < 3

    try:
        with pytest.raises(JobStopped):
            start_with_beats(server, few_beats, beat_s=0.05)
    finally:
        server.stop()
    assert beats == [None] * 3
