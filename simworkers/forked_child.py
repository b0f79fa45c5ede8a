"""One forked child: cuts itself loose from the server, limits itself, makes one call and answers it.

Memory is limited by RLIMIT_DATA, above what the warm process maps already. RLIMIT_AS stops a torch allocation just as
cleanly, but also counts address space that is only reserved: the renderer of figures dies under it even with 4 GiB to
spare, while under RLIMIT_DATA it needs less than 1 GiB (tried). The limit holds for each process by itself.
"""

import contextlib
import ctypes
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from simworkers.job_entries import Entry, InvalidCall

log = logging.getLogger(__name__)

PROGRESS_INTERVAL_S = 0.1
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
SERVER_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
HIGHEST_FD = 2**16


def serve_call(
    link: socket.socket, entry: Entry, kwargs: dict[str, Any], memory_bytes: int, server_pid: int
) -> NoReturn:
    """Answer the call on `link` and exit: status 0 once a result or an error is sent. Runs right after the fork."""
    status = 1
    try:
        _cut_loose(link, server_pid)
        _limit_resources(memory_bytes)
        _answer(Reply(link), entry, kwargs)
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        pass  # the client has gone; so do we
    except BaseException:
        log.exception("the child broke")
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent (the thread that forked it) dies. Linux; else no effect."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before we asked
        os._exit(1)


class Reply:
    """A child's side of the connection."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._unsent: tuple[int, int] | None = None
        self._next_at = 0.0  # time.monotonic() seconds

    def send(self, **message: Any) -> None:
        """Send a message after whatever progress was held back. ValueError, and nothing sent, if it has a NaN."""
        line = json.dumps(message, allow_nan=False).encode() + b"\n"
        self._send_progress()
        self._link.sendall(line)

    def error(self, kind: str, message: str) -> None:
        self.send(error={"kind": kind, "message": message})

    def progress(self, done: int, total: int) -> None:
        """Tell how far the run is; at most ten times a second, the last always."""
        self._unsent = (int(done), int(total))
        if time.monotonic() >= self._next_at or done >= total:
            self._send_progress()

    def _send_progress(self) -> None:
        if self._unsent is not None:
            self._link.sendall(json.dumps({"progress": self._unsent}).encode() + b"\n")
            self._unsent, self._next_at = None, time.monotonic() + PROGRESS_INTERVAL_S


def _answer(reply: Reply, entry: Entry, kwargs: dict[str, Any]) -> None:
    """Make the call and send exactly one result or error."""
    reply.send(started={"pid": os.getpid()})
    log.info("%s begins", entry.__name__)
    started = time.perf_counter()
    try:
        result = entry(**kwargs, progress=reply.progress)
        log.info("%s took %.2f s", entry.__name__, time.perf_counter() - started)
    except InvalidCall as error:
        return reply.error("invalid", str(error))
    except ConnectionError:
        raise
    except Exception as error:
        if _is_out_of_memory(error):
            traceback.clear_frames(error.__traceback__)  # frees what the run holds
            return reply.error("memory", "the run needs more memory than it may have")
        log.exception("%s broke", entry.__name__)
        return reply.error("crash", f"{type(error).__name__}: {error}")
    try:
        return reply.send(result=result)
    except (ValueError, TypeError) as error:
        return reply.error(
            "crash", f"the result is not strict JSON (NaN, infinity or a foreign type): {error}"
        )


def _is_out_of_memory(error: Exception) -> bool:
    # torch's CPU allocator raises RuntimeError ("DefaultCPUAllocator: can't allocate memory", "std::bad_alloc").
    text = str(error)
    return isinstance(error, MemoryError) or "allocate memory" in text or "bad_alloc" in text


def _cut_loose(link: socket.socket, server_pid: int) -> None:
    """Own group, own signals, none of the server's files but stderr and this connection."""
    os.setsid()
    die_with_parent(server_pid)
    # A grandchild made by a plain fork dies with the child, also where nobody is left to kill the group.
    # The parent's number is noted before the fork: who asks for it after the parent's death learns another's.
    parent = [0]
    os.register_at_fork(
        before=lambda: parent.__setitem__(0, os.getpid()), after_in_child=lambda: die_with_parent(parent[0])
    )
    signal.set_wakeup_fd(-1)
    for number in SERVER_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a job prints must not fill the pipe on which the server said that it is ready
    # The objects that own these numbers live until `_exit`, so none of them closes a number anew.
    os.closerange(3, link.fileno())
    os.closerange(link.fileno() + 1, HIGHEST_FD)


def _limit_resources(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return
    with Path("/proc/self/status").open() as status:
        mapped_kib = next(int(line.split()[1]) for line in status if line.startswith("VmData:"))
    limit = mapped_kib * 1024 + memory_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    # Where the machine itself runs out, the kernel should take the run and not the worker.
    Path("/proc/self/oom_score_adj").write_text("500")
