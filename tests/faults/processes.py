"""The site under test: a web process and several workers, started again whenever they end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from simworkers.forked_child import die_with_parent
from tests.faults.servers import free_port

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable


class Process:
    """One command that should always run, with its output in a file."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._command = command
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def keep_running(self) -> None:
        if self.pid is None:
            parent = os.getpid()
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    env=self._environment,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=lambda: die_with_parent(parent),
                )
            self.starts += 1

    def signal(self, number: signal.Signals) -> bool:
        """Whether there was a process to send it to."""
        if (pid := self.pid) is None:
            return False
        os.kill(pid, number)
        return True

    def end(self, patience_s: float = 20) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Site:
    def __init__(self, folder: Path, environment: Mapping[str, str], skew_s: int, workers: int) -> None:
        self.folder = folder
        self.environment = dict(environment)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        web = [PYTHON, "-m", "uvicorn", "config.asgi:application", "--port", str(port), "--lifespan", "off"]
        self.web = Process(
            "web", [*web, "--no-access-log", "--log-level", "warning"], environment, folder / "web.log"
        )
        self.workers = [self._worker(f"worker-{index}", environment) for index in range(1, workers)]
        skewed = {**environment, "FAULTS_SKEW_S": str(skew_s)}
        self.workers.append(self._worker("worker-skewed", skewed))

    def _worker(self, name: str, environment: Mapping[str, str]) -> Process:
        command = [PYTHON, "-m", "celery", "--quiet", "-A", "tests.faults.worker", "worker", "-P", "threads"]
        command += ["-c", "2", "-O", "fair", "--loglevel", "info", "-n", f"{name}@faults"]
        command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return Process(name, command, environment, self.folder / f"{name}.log")

    @property
    def processes(self) -> list[Process]:
        return [self.web, *self.workers]

    def manage(self, *arguments: str) -> None:
        subprocess.run(
            [PYTHON, "manage.py", *arguments],
            env=self.environment,
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=300,
        )

    def tend(self) -> None:
        for process in self.processes:
            process.keep_running()

    def stop(self) -> None:
        for process in self.processes:
            process.signal(signal.SIGCONT)
            process.signal(signal.SIGTERM)
        for process in self.processes:
            process.end()

    def left_behind(self) -> list[int]:
        """Processes that still name this site's folder: warm servers and their children."""
        deadline = time.monotonic() + 30  # they notice at their own pace that their worker has gone
        while (found := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _alive(self) -> list[int]:
        return [pid for pid in numbers(Path("/proc")) if str(self.folder).encode() in command_line(pid)]


def numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def children_of(pid: int | None) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def warm_server_of(worker: Process) -> int | None:
    """A worker's threads start it, so that it is listed below any of them."""
    if (pid := worker.pid) is None:
        return None
    try:
        threads = numbers(Path(f"/proc/{pid}/task"))
        found = [
            int(child)
            for thread in threads
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        ]
    except OSError:
        return None
    return next((child for child in found if b"simworkers.forkserver" in command_line(child)), None)
