"""The warm server's protocol, spoken over its socket by hand."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simworkers import job_entries

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
LIMITS = {"time_s": 30, "memory_bytes": 256 * MIB}


def start_server(folder: Path) -> "subprocess.Popen[bytes]":
    folder.mkdir(mode=0o700)
    command = [
        sys.executable,
        "-m",
        "simworkers.forkserver",
        "--socket",
        str(folder / "s"),
        "--preload",
        "json",
        "--preload",
        "tests.simworkers.forkserver_entries",
    ]
    server = subprocess.Popen(
        [*command, "--entries", "tests.simworkers.forkserver_entries"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return server


def end_server(server: "subprocess.Popen[bytes]") -> None:
    assert server.stdin is not None and server.stdout is not None
    server.stdin.close()
    server.wait(timeout=120)
    server.stdout.close()


@pytest.fixture(scope="module")
def socket_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("server") / "private"
    server = start_server(folder)
    yield folder / "s"
    end_server(server)


@pytest.fixture
def link(socket_path: Path) -> Iterator[socket.socket]:
    with connect(socket_path) as link:
        yield link


def connect(path: Path) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(120)
    link.connect(str(path))
    return link


def request(entry: str, limits: Any = LIMITS, **kwargs: Any) -> bytes:
    return json.dumps({"entry": entry, "kwargs": kwargs, "limits": limits}).encode() + b"\n"


def read_lines(link: socket.socket) -> list[bytes]:
    """All lines until the server ends the connection."""
    data = b""
    while chunk := link.recv(2**20):
        data += chunk
    return data.split(b"\n")


def read_messages(link: socket.socket) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_lines(link) if line]


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)
    return path.read_text()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_all_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, f"of {pids} some are alive"
        time.sleep(0.02)


def test_a_call_is_answered_by_started_progress_and_one_result(link: socket.socket) -> None:
    link.sendall(request("count", steps=3, pause_s=0.15))
    first, *progress, last = read_messages(link)
    assert first["started"]["pid"] > 1
    assert progress == [{"progress": [1, 3]}, {"progress": [2, 3]}, {"progress": [3, 3]}]
    assert last == {"result": {"steps": 3}}


def test_a_preloaded_module_is_warmed_once_by_the_server_and_not_by_its_children(link: socket.socket) -> None:
    link.sendall(request("warmed"))
    result = read_messages(link)[-1]["result"]
    assert result["by"] == [result["parent"]]


def test_progress_is_throttled_and_the_last_is_always_sent(link: socket.socket) -> None:
    link.sendall(request("count", steps=5000))
    _, *progress, last = read_messages(link)
    assert progress[-1] == {"progress": [5000, 5000]}
    assert len(progress) < 500
    assert "result" in last


def test_a_result_with_nan_is_an_error_and_no_result(link: socket.socket) -> None:
    link.sendall(request("give", what="nan"))
    _, last = read_messages(link)
    assert last["error"]["kind"] == "crash"
    assert "NaN" in last["error"]["message"]


def test_a_time_out_ends_the_line_the_child_had_begun(link: socket.socket) -> None:
    # The child blocks in sending three megabytes that nobody reads, and is killed there.
    link.sendall(request("give", {"time_s": 2, "memory_bytes": 256 * MIB}, what="large"))
    heard = b""
    while b"\n" not in heard:
        heard += link.recv(1)
    child = json.loads(heard)["started"]["pid"]
    assert_all_end([child])
    lines = [line for line in read_lines(link) if line]
    with pytest.raises(ValueError):
        json.loads(
            lines[-1]
        )  # cut off; the error found no room in the full connection, whose end says the rest


def test_a_client_that_does_not_read_holds_up_nobody(link: socket.socket, socket_path: Path) -> None:
    link.sendall(request("give", what="large"))
    with connect(socket_path) as other:
        other.sendall(request("count", steps=1))
        assert read_messages(other)[-1] == {"result": {"steps": 1}}


@pytest.mark.parametrize(
    "line",
    [
        b"no json\n",
        b"[]\n",
        b'"text"\n',
        b'{"entry": "count"}\n',
        request("no_such_entry"),
        request("count", {"time_s": float("nan"), "memory_bytes": 1}),
        request("count", {"time_s": 1, "memory_bytes": 0}),
        request("count", {"time_s": -1, "memory_bytes": 1}),
        b"[" * 100_000 + b"\n",
    ],
    ids=lambda line: line[:24].decode(),
)
def test_a_bad_request_is_invalid_and_the_server_goes_on(
    link: socket.socket, socket_path: Path, line: bytes
) -> None:
    link.sendall(line)
    (answer,) = read_messages(link)
    assert answer["error"]["kind"] == "invalid"
    with connect(socket_path) as other:
        other.sendall(request("count", steps=1))
        assert read_messages(other)[-1] == {"result": {"steps": 1}}


def test_a_client_that_goes_before_it_has_asked_disturbs_nobody(socket_path: Path) -> None:
    connect(socket_path).close()
    with connect(socket_path) as half, connect(socket_path) as whole:
        half.sendall(b'{"entry": ')
        whole.sendall(request("count", steps=1))
        assert read_messages(whole)[-1] == {"result": {"steps": 1}}


def test_a_request_may_come_in_pieces(link: socket.socket) -> None:
    line = request("count", steps=2)
    link.sendall(line[:10])
    time.sleep(0.1)
    link.sendall(line[10:])
    assert read_messages(link)[-1] == {"result": {"steps": 2}}


def test_closing_the_connection_kills_the_childs_group(socket_path: Path, tmp_path: Path) -> None:
    with connect(socket_path) as link:
        link.sendall(request("hang_with_grandchild", pid_file=str(tmp_path / "pids")))
        pids = [int(word) for word in wait_for(tmp_path / "pids").split()]
        assert all(map(is_alive, pids))
    assert_all_end(pids)


@pytest.mark.parametrize("how", ["the leash", "SIGTERM", "SIGKILL"])
def test_the_servers_end_is_its_childrens_end(tmp_path: Path, how: str) -> None:
    server = start_server(tmp_path / "private")
    with connect(tmp_path / "private" / "s") as link:
        link.sendall(request("hang_with_grandchild", pid_file=str(tmp_path / "pids")))
        pids = [int(word) for word in wait_for(tmp_path / "pids").split()]
        if how == "the leash":
            assert server.stdin is not None
            server.stdin.close()
        else:
            server.send_signal(signal.Signals[how])
        server.wait(timeout=120)
        assert_all_end(pids)
    if how != "SIGKILL":
        assert not (tmp_path / "private").exists()
    end_server(server)


# The entries themselves


def ignore(done: int, total: int) -> None:
    """Progress nobody reads."""


def test_parameters_that_the_lab_refuses_name_each_field() -> None:
    with pytest.raises(job_entries.InvalidCall) as refusal:
        job_entries.run_job("moe-eplb", {"num_gpus": 0, "no_such": 1}, 1, ignore)
    assert {line.partition(":")[0] for line in str(refusal.value).splitlines()} == {"num_gpus", "no_such"}


def test_an_unknown_lab_or_task_is_the_callers_mistake() -> None:
    with pytest.raises(job_entries.InvalidCall, match=r"lab: .*no-such-lab"):
        job_entries.run_job("no-such-lab", {}, 1, ignore)
    with pytest.raises(job_entries.InvalidCall, match="kind: moe-eplb has no task 'nothing'"):
        job_entries.prepare_task("moe-eplb", "nothing", 1, ignore)


def test_importing_the_server_loads_neither_torch_nor_django() -> None:
    probe = (
        "import sys, simworkers.forkserver; print({'torch', 'numpy', 'django', 'celery'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
