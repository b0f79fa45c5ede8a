"""A whole site, as `make serve` starts it: web and worker in processes of their own, on a folder of their own."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from demo.api import Api
from tests.faults.servers import die_with_me

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Site:
    folder: Path
    url: str = ""
    pids: dict[str, int] = field(default_factory=dict)
    answers: threading.Event = field(default_factory=threading.Event)

    def listen(self, lines: IO[str]) -> None:
        for line in lines:
            if found := re.match(r"(web|worker) pid (\d+)", line):
                self.pids[found[1]] = int(found[2])
            if found := re.search(r"http://\S+", line):
                self.url = found.group().rstrip("/")
                self.answers.set()

    def newcomer(self) -> Api:
        """A new learner, enrolled in the open class."""
        api = Api(self.url)
        api.post("offerings/open/enrollments/")
        return api

    @contextmanager
    def nothing_computes(self) -> Iterator[None]:
        """Runs are taken, and stay where they are: the warm server that would fork their children stands still."""
        servers = children_of(self.pids["worker"])
        assert servers, "the worker has no warm server"
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in servers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def children(self) -> list[int]:
        """Processes that compute for the worker: children of its warm server."""
        return [pid for server in children_of(self.pids["worker"]) for pid in children_of(server)]


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def end(server: subprocess.Popen[str]) -> None:
    """Ends a site, whatever became of it: one that lived on would write into what others use."""
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(timeout=120)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
        raise


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    # What a site waits seconds for, a test need not. The lease outlasts a machine that stands still for a while, which
    # must not cost a try where tries are counted.
    environment = {
        **os.environ,
        "STAFFLOOP_VAR": str(folder),
        "STAFFLOOP_RUN_TIME_LIMIT_S": "600",
        "STAFFLOOP_RUN_LEASE_S": "10",
        "STAFFLOOP_SWEEP_INTERVAL_S": "1",
        "PYTHONUNBUFFERED": "1",
    }
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "bootstrap"], env=environment, check=True, capture_output=True)
    server = subprocess.Popen(
        [*manage, "serve", "--port", "0", "--workers", "2"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_me(),
    )
    assert server.stdout is not None
    site = Site(folder)
    # Read on for as long as it runs: a restarted worker has another process id.
    reader = threading.Thread(target=site.listen, args=(server.stdout,), daemon=True)
    reader.start()
    try:
        assert site.answers.wait(180), "the site did not start"
        yield site
    finally:
        end(server)
        reader.join()
        server.stdout.close()
