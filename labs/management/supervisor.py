"""Child processes that are kept running until a signal says stop. Used by `manage.py serve`."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from simworkers.forked_child import die_with_parent

BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S = 60.0  # who ran so long starts over at the shortest backoff
FOREVER = float("inf")


class Service:
    """One command that should always run. Its process leads a session of its own, so that Ctrl-C reaches only us."""

    def __init__(
        self, name: str, command: Sequence[str], *, folder: Path, keep_fds: Sequence[int] = ()
    ) -> None:
        self.name = name
        self._command = list(command)
        self._folder = folder
        self._keep_fds = tuple(keep_fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._crashes = 0
        self.start_at = 0.0  # time.monotonic() seconds; when it may be started again

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> int:
        supervisor_pid = os.getpid()
        self._process = subprocess.Popen(
            self._command,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            pass_fds=self._keep_fds,
            start_new_session=True,
            # We have one thread, so code between fork and exec is safe.
            preexec_fn=lambda: die_with_parent(supervisor_pid),
        )
        self._started_at = time.monotonic()
        return self._process.pid

    def reap(self) -> int | None:
        """Return its exit code if it has ended since the last look, and note when to start it again."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self._signal_group(signal.SIGKILL)  # what it left behind
        self._process = None
        now = time.monotonic()
        self._crashes = 0 if now - self._started_at > STEADY_S else self._crashes
        self.start_at = now + BACKOFF_S[min(self._crashes, len(BACKOFF_S) - 1)]
        self._crashes += 1
        return code

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill it with its group."""
        if self._process is not None:
            self._signal_group(signal.SIGKILL)

    def wait(self) -> None:
        """Until it has ended, once it was killed."""
        if self._process is not None:
            self._process.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


class Supervisor:
    """Runs services until SIGINT or SIGTERM; asks them to end; kills them after a grace period or a second signal."""

    def __init__(self, services: Sequence[Service], *, grace_s: float, say: Callable[[str], None]) -> None:
        self._services = services
        self._grace_s = grace_s
        self._say = say
        # Signals arrive as bytes on a pipe: one place to wait for them and for a watched socket.
        self._signals, signals_in = os.pipe()
        os.set_blocking(signals_in, False)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(signals_in, warn_on_full_buffer=False)

    def run(self, watch: "Watch | None" = None) -> None:
        """Return when all services have ended after a signal."""
        for service in self._services:
            self._start(service)
        while not self._stop_asked(self._next_start(), watch):
            self._tend()
        self._stop()

    def _start(self, service: Service) -> None:
        service.start_at = FOREVER
        self._say(f"{service.name} pid {service.start()}")

    def _next_start(self) -> float:
        return min(service.start_at for service in self._services)

    def _tend(self) -> None:
        for service in self._services:
            if (code := service.reap()) is not None:
                wait_s = service.start_at - time.monotonic()
                print(
                    f"{service.name} {describe_exit(code)}; starting it again in {wait_s:.1f} s",
                    file=sys.stderr,
                )
            if service.start_at <= time.monotonic():
                self._start(service)

    def _stop_asked(self, until: float, watch: "Watch | None" = None) -> bool:
        """Wait for a signal, `until`, or the watch. Whether a signal to stop has come."""
        wait_s = None if until == FOREVER else max(0.0, until - time.monotonic())
        sources = [self._signals] + ([watch.fd] if watch is not None and watch.fd is not None else [])
        readable, _, _ = select.select(sources, [], [], wait_s)
        if watch is not None and watch.fd in readable:
            watch.look()
        if self._signals not in readable:
            return False
        return bool(set(os.read(self._signals, 4096)) & {signal.SIGINT, signal.SIGTERM})

    def _stop(self) -> None:
        running = [service for service in self._services if service.pid is not None]
        print("stopping; runs may finish (a second signal stops at once)", file=sys.stderr)
        for service in running:
            service.terminate()
        deadline = time.monotonic() + self._grace_s
        while running and time.monotonic() < deadline:
            if self._stop_asked(deadline):
                break
            running = [service for service in running if service.reap() is None]
        for service in running:
            print(f"{service.name} did not end in time; killing it", file=sys.stderr)
            service.kill()
        for service in running:
            service.wait()


class Watch:
    """Asks a web server, whose socket is bound already, for its first answer."""

    def __init__(self, host: str, port: int, on_answer: Callable[[], None]) -> None:
        self._address = (host, port)
        self._on_answer = on_answer
        self._link: socket.socket | None = None
        self._ask()

    @property
    def fd(self) -> int | None:
        """What becomes readable when there is something to look at; None when the answer has come."""
        return self._link.fileno() if self._link is not None else None

    def _ask(self) -> None:
        # The kernel takes the connection at once and keeps it until a server accepts it.
        self._link = socket.create_connection(self._address, timeout=5)
        host = f"[{self._address[0]}]" if ":" in self._address[0] else self._address[0]
        self._link.sendall(f"HEAD / HTTP/1.0\r\nHost: {host}:{self._address[1]}\r\n\r\n".encode())

    def look(self) -> None:
        if self._link is None:
            return
        try:
            answer = self._link.recv(100)
        except OSError:
            answer = b""
        self._link.close()
        self._link = None
        if answer.startswith(b"HTTP/"):
            self._on_answer()
        else:
            self._ask()  # a server took the question and died over it


def describe_exit(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
