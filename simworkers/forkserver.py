"""The warm server: forks a child per call, so that a run does not pay two seconds for importing torch.

`python -m simworkers.forkserver --socket PATH` imports what jobs need, prints `ready` and waits. A client connects
to the Unix socket and sends one JSON line::

    {"entry": "run_job", "kwargs": {…}, "limits": {"time_s": 60, "memory_bytes": 1073741824}, "log_ids": {…}}

(`log_ids` may be left out; the child's log lines carry them) and reads JSON lines: {"started": {"pid"}},
{"progress": [done, total]} …, then one of {"result": …} and {"error": {"kind", "message"}}. Kinds: "invalid" (the
caller's mistake), "memory", "time", "crash" (ours). A line that is no JSON was cut off by a kill and means nothing.

Three leashes, so that nobody outlives who asked for it. The connection: closed by the client, it kills the child's
process group. The server's stdin: at its end the server kills all children and exits. And the kernel (Linux): it kills
a child whose server dies.

The server has one thread and must keep to it: a fork copies only the thread that forks, and whatever lock another
thread holds stays locked in the child.
"""

import argparse
import contextlib
import gc
import importlib
import json
import math
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simworkers import catalog, forked_child, logs
from simworkers.job_entries import ENTRIES, Entry

REQUEST_LIMIT_BYTES = 8 * 2**20
FOREVER = float("inf")


@dataclass(eq=False)
class Call:
    """A connection, and once its request has come, the child that serves it."""

    link: socket.socket
    request: bytes = b""
    pid: int = 0
    deadline: float = FOREVER  # time.monotonic() seconds
    killed_for: str = ""  # "time", "gone"

    def kill(self, reason: str) -> None:
        """Kill the child with its group, for the first reason given."""
        self.killed_for = self.killed_for or reason
        self.deadline = FOREVER
        for kill in (os.killpg, os.kill):  # the second: a child that has not made its group yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)

    def send(self, **message: Any) -> None:
        """Send without waiting: a client that does not read must not hold up the others."""
        line = (
            b"\n" + json.dumps(message).encode() + b"\n"
        )  # ends the line that a killed child may have begun
        with contextlib.suppress(OSError):
            self.link.send(line, socket.MSG_DONTWAIT)


class Server:
    """Accepts calls, forks children, keeps deadlines, buries the dead."""

    def __init__(self, socket_path: str, entries: Mapping[str, Entry]) -> None:
        self.entries = entries
        self.calls: set[Call] = set()
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(socket_path)
        self.listener.listen(64)
        self.listener.setblocking(False)
        # Signals arrive as bytes on a pipe, so that the loop can wait for them together with the sockets.
        self.signals, signals_in = os.pipe()
        os.set_blocking(self.signals, False)
        os.set_blocking(signals_in, False)
        for number in forked_child.SERVER_SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(signals_in, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until stdin ends, or a SIGTERM or SIGINT comes."""
        for source in (self.listener, self.signals, sys.stdin):
            self.selector.register(source, selectors.EVENT_READ)
        try:
            while self._turn():
                pass
        finally:
            for call in self.calls:
                if call.pid:
                    call.kill("gone")

    def _turn(self) -> bool:
        """Wait for something to happen and handle it. False: time to go."""
        nearest = min((call.deadline for call in self.calls), default=FOREVER)
        wait_s = None if nearest == FOREVER else max(0.0, nearest - time.monotonic())
        for key, _ in self.selector.select(wait_s):
            if key.fileobj is sys.stdin:
                if not os.read(0, 4096):
                    return False
            elif key.fileobj == self.signals:
                if set(os.read(self.signals, 4096)) & {signal.SIGTERM, signal.SIGINT}:
                    return False
                self._bury()
            elif key.fileobj is self.listener:
                self._accept()
            elif key.data in self.calls:  # else it was closed earlier in this turn
                self._read(key.data)
        for call in self.calls:
            if call.deadline <= time.monotonic():
                call.kill("time")
        return True

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            link, _ = self.listener.accept()
            link.setblocking(True)
            call = Call(link)
            self.calls.add(call)
            self.selector.register(link, selectors.EVENT_READ, call)

    def _read(self, call: Call) -> None:
        try:
            data = call.link.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            if call.pid:
                call.kill("gone")
                self.selector.unregister(call.link)  # closed when the child is buried
            else:
                self._close(call)
        elif not call.pid:  # whatever follows the request is ignored
            call.request += data
            if b"\n" in data or len(call.request) > REQUEST_LIMIT_BYTES:
                self._start(call)

    def _start(self, call: Call) -> None:
        try:
            request = json.loads(call.request)
            entry, kwargs = self.entries[request["entry"]], dict(request["kwargs"])
            time_s, memory_bytes = float(request["limits"]["time_s"]), int(request["limits"]["memory_bytes"])
            if not (0 < time_s < math.inf and memory_bytes > 0):
                raise ValueError("limits must be finite and positive")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._refuse(call, "invalid", f"request: {type(error).__name__}: {error}")
            return
        server_pid = os.getpid()
        try:
            call.pid = os.fork()
        except OSError as error:
            self._refuse(call, "crash", f"no process could be made: {error}")
            return
        if call.pid == 0:
            logs.name_process(**logs.checked_ids(request.get("log_ids")))
            forked_child.serve_call(call.link, entry, kwargs, memory_bytes, server_pid)
        call.deadline = time.monotonic() + time_s
        call.request = b""

    def _refuse(self, call: Call, kind: str, message: str) -> None:
        call.send(error={"kind": kind, "message": message})
        self._close(call)

    def _bury(self) -> None:
        """Reap the dead, kill what they left of their groups, and say what killed them if they did not."""
        for call in [call for call in self.calls if call.pid]:
            pid, status = os.waitpid(call.pid, os.WNOHANG)
            if pid == 0:
                continue
            call.kill("done")  # a group keeps its number while it has members, so this hits them or nobody
            code = os.waitstatus_to_exitcode(status)
            if call.killed_for != "gone" and code != 0:
                call.send(error=_cause_of_death(call.killed_for, code))
            self._close(call)

    def _close(self, call: Call) -> None:
        with contextlib.suppress(KeyError):
            self.selector.unregister(call.link)
        with contextlib.suppress(OSError):
            call.link.shutdown(
                socket.SHUT_WR
            )  # reaches the client even if a stray still holds the connection
        call.link.close()
        self.calls.discard(call)


def _cause_of_death(killed_for: str, code: int) -> dict[str, str]:
    if killed_for == "time":
        return {"kind": "time", "message": "the run took longer than it may"}
    if code < 0:
        return {"kind": "crash", "message": f"the simulation was killed by {signal.Signals(-code).name}"}
    return {"kind": "crash", "message": f"the simulation ended with exit status {code} and no result"}


def job_modules() -> list[str]:
    """The modules that simulate, of all labs in the catalogue."""
    return [catalog.get_job(name).simulate.partition(":")[0] for name in catalog.job_names()]


def warm_up(modules: list[str]) -> None:
    """Import torch and `modules` with one thread, and call each one's `warm()` if it has one, so that children share
    what it loads. SystemExit if a second thread came up."""
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    for module in modules:
        getattr(importlib.import_module(module), "warm", lambda: None)()
    if sys.platform == "linux" and (threads := len(os.listdir("/proc/self/task"))) != 1:
        sys.exit(f"{threads} threads run after importing; set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS to 1")
    gc.collect()
    gc.freeze()  # keeps collections in children from touching, and so copying, every shared page


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m simworkers.forkserver", description="Fork a simulation per call."
    )
    parser.add_argument(
        "--socket", required=True, help="path of the Unix socket; its private folder is removed at the end"
    )
    parser.add_argument(
        "--preload", action="append", help="module to import first (default: all simulations)"
    )
    parser.add_argument("--entries", help="a module whose ENTRIES dict may be called too")
    options = parser.parse_args()
    logs.write_to_stderr(os.environ.get("LOG_FORMAT", ""), os.environ.get("LOG_LEVEL", ""))
    warm_up(job_modules() if options.preload is None else options.preload)
    for name in catalog.job_names():  # of the files as just imported; they may be replaced while we live
        catalog.engine_version(name)
    entries = dict(ENTRIES)
    if options.entries:
        entries |= importlib.import_module(options.entries).ENTRIES
    server = Server(options.socket, entries)
    print("ready", flush=True)
    try:
        server.serve()
    finally:
        Path(options.socket).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            Path(options.socket).parent.rmdir()


if __name__ == "__main__":
    main()
