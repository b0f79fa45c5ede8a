"""Runs a simulation in a supervised child process, from a Celery worker. No Django in here.

One warm server (`simworkers.forkserver`) per worker process, shared by its threads, forks a child per call. The child
is killed with its group when `on_beat` says no or raises, when its time is up, and when this process dies: its end
of the connection and of the server's stdin close, however it died.
"""

import atexit
import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simworkers import logs

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT_S = 120.0
OVERDUE_S = 10.0  # how long after its time limit a call waits for the server to say so
ANSWER_LIMIT_BYTES = 64 * 2**20

# What a simulation may know of this process's environment: never the database, the broker or a secret.
PASSED_ON = {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV"}
PASSED_ON |= {"LOG_FORMAT", "LOG_LEVEL"}
PASSED_ON_PREFIXES = ("LC_", "PYTHON", "OMP_", "MKL_", "ATEN_", "OPENBLAS_")
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)

Beat = Callable[[tuple[int, int] | None], bool]


@dataclass(frozen=True)
class Limits:
    """What one call may take. Memory counts on top of what the warm server maps already."""

    time_s: float
    memory_bytes: int


class JobFailed(Exception):
    """The call ended without a result. kind: "invalid" (the caller's mistake), "memory", "crash",
    "input", "version" (ours)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class JobTimedOut(Exception):
    """The call took longer than its time limit and was killed."""


class JobStopped(Exception):
    """`on_beat` said no, and the call was killed."""


class ServerLost(Exception):
    """The warm server died before it had started the call."""


class WarmServer:
    """The server process of this process: started at the first call, and again when found dead. Thread-safe."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._forget()
        os.register_at_fork(after_in_child=self._forget_inherited)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None

    def _forget_inherited(self) -> None:
        """In a forked process: the server is the parent's, and an open leash here would outlive the parent's."""
        process = self._process
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()
            process.returncode = 0  # not our child: nothing to wait for
        self._forget()

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Have a live server. JobFailed("crash") if none comes up."""
        with self._lock:
            if self.pid is None:
                self._discard()
                self._launch()

    def connect(self) -> socket.socket:
        self.start()
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.connect(self._socket_path())
        except OSError as error:
            link.close()
            raise ServerLost from error
        return link

    def settle(self) -> None:
        """Give a dying server, whose socket fails already, a moment to be seen dead."""
        process = self._process
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)

    def stop(self) -> None:
        with self._lock:
            self._discard()

    def _socket_path(self) -> str:
        folder = self._folder
        if folder is None:
            raise FileNotFoundError("the warm server was stopped")
        return str(folder / "calls.sock")

    def _launch(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="staffloop-"))  # mode 0700
        command = [sys.executable, "-m", "simworkers.forkserver", "--socket", self._socket_path()]
        self._process = process = subprocess.Popen(
            [*command, *self._arguments],
            cwd=ROOT,
            env=scrubbed_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the worker, which lets its runs finish
        )
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            answered = selector.select(START_LIMIT_S)
        if not answered or process.stdout.readline() != b"ready\n":
            self._discard()
            raise JobFailed("crash", "the simulation server did not come up; its stderr says why")

    def _discard(self) -> None:
        """Let go of the leash; the server kills its children and exits."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # the server has removed it, unless it was killed


def scrubbed_environment() -> dict[str, str]:
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    return passed | ONE_THREAD


SERVER = WarmServer()
atexit.register(SERVER.stop)


def warm_up() -> None:
    """Start the server now, so that the first call does not wait for torch."""
    SERVER.start()


def shut_down() -> None:
    """End the server and with it every running call."""
    SERVER.stop()


def call(
    entry: str,
    kwargs: dict[str, Any],
    *,
    limits: Limits,
    on_beat: Beat,
    beat_s: float = 1.0,
    server: WarmServer | None = None,
) -> Any:
    """Have `entry` of `simworkers.job_entries` run in a child of its own and return its result.

    `on_beat` gets the latest (done, total), or None, about every `beat_s` seconds; False kills the child and
    raises JobStopped, and so does an exception, which passes. Raises JobFailed and JobTimedOut.
    """
    request = {"entry": entry, "kwargs": kwargs, "limits": asdict(limits), "log_ids": logs.ids()}
    line = json.dumps(request, allow_nan=False).encode() + b"\n"
    warm = server or SERVER
    start_with_beats(warm, on_beat, beat_s)
    for _ in range(3):  # a server found dead before it began is replaced; nothing has run yet
        with contextlib.suppress(ServerLost), warm.connect() as link:
            return _Conversation(link, limits, on_beat, beat_s).hold(line)
        warm.settle()
    raise JobFailed("crash", "the simulation server died again and again")


def start_with_beats(server: WarmServer, on_beat: Beat, beat_s: float) -> None:
    """Have a live server. Starting one takes seconds, and on a slow disk a minute: beats go on meanwhile."""
    if server.pid is not None:
        return None
    started: Future[None] = Future()

    def start() -> None:
        try:
            server.start()
            started.set_result(None)
        except Exception as exc:  # whatever it was, it is for who waits
            started.set_exception(exc)

    threading.Thread(target=start, daemon=True).start()
    while True:
        try:
            return started.result(timeout=beat_s)
        except TimeoutError:
            if not on_beat(None):
                raise JobStopped from None


class _Conversation:
    """One request and its answer over one connection."""

    def __init__(self, link: socket.socket, limits: Limits, on_beat: Beat, beat_s: float) -> None:
        self._link = link
        self._on_beat = on_beat
        self._beat_s = beat_s
        self._next_beat_at = time.monotonic() + beat_s
        self._overdue_at = time.monotonic() + limits.time_s + OVERDUE_S
        self._progress: tuple[int, int] | None = None
        self._child_pid: int | None = None

    def hold(self, request: bytes) -> Any:
        try:
            self._link.sendall(request)
        except OSError as error:
            raise ServerLost from error
        for message in self._messages():
            if "result" in message:
                # A quick run may have had no beat since its last step; whoever counts steps hears of all of them.
                if self._progress is not None and not self._on_beat(self._progress):
                    raise JobStopped
                return message["result"]
            if "error" in message:
                raise _failure(message["error"])
            if "progress" in message:
                done, total = message["progress"]
                self._progress = (done, total)
            elif "started" in message:
                self._child_pid = message["started"]["pid"]
        if self._child_pid is None:
            raise ServerLost
        self._kill_orphans(self._child_pid)
        if (
            time.monotonic() >= self._overdue_at - OVERDUE_S
        ):  # the server's word found no room in a full connection
            raise JobTimedOut("the run took longer than it may")
        raise JobFailed("crash", "the simulation server died during the run")

    def _messages(self) -> Iterator[dict[str, Any]]:
        """Yield messages until the connection ends, giving a beat in between."""
        buffer = bytearray()
        while chunk := self._read():
            buffer += chunk
            if len(buffer) > ANSWER_LIMIT_BYTES:
                raise JobFailed("crash", f"the answer is larger than {ANSWER_LIMIT_BYTES} bytes")
            if b"\n" not in chunk:
                continue
            *lines, rest = buffer.split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                with contextlib.suppress(ValueError):  # an empty line, or one that a kill cut off
                    yield json.loads(line)

    def _read(self) -> bytes:
        """The next bytes, b"" at the end. Beats while it waits."""
        while True:
            wait_s = self._next_beat_at - time.monotonic()
            if wait_s <= 0:
                self._beat()
                continue
            self._link.settimeout(wait_s)
            try:
                return self._link.recv(2**20)
            except TimeoutError:
                continue
            except ConnectionError:
                return b""

    def _beat(self) -> None:
        if time.monotonic() > self._overdue_at:
            raise JobTimedOut("the simulation server did not end the run in time")
        if not self._on_beat(self._progress):
            raise JobStopped
        self._next_beat_at = time.monotonic() + self._beat_s

    @staticmethod
    def _kill_orphans(child_pid: int) -> None:
        """Kill what the child has started: the kernel took the child itself when its server died."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child_pid, signal.SIGKILL)


def _failure(error: dict[str, str]) -> Exception:
    if error["kind"] == "time":
        return JobTimedOut(error["message"])
    return JobFailed(error["kind"], error["message"])
