"""`manage.py serve` with real processes: what it starts, restarts, refuses, and what it leaves behind."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from labs.management.commands.serve import worker_command

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 240.0
SERVE = [sys.executable, "manage.py", "serve"]

# Services that stand in for web and worker where only supervision is tried.
SUPERVISE = """
import sys
from pathlib import Path
from labs.management.supervisor import Service, Supervisor
services = [Service(f"s{index}", [sys.executable, "-c", code], folder=Path.cwd())
            for index, code in enumerate(sys.argv[2:])]
supervisor = Supervisor(services, grace_s=float(sys.argv[1]), say=lambda line: print(line, flush=True))
supervisor.run()
"""
SLEEP = "import time; time.sleep(600)"
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
LEAVES_CHILD = """
import subprocess, time
print("child pid", subprocess.Popen(["sleep", "600"]).pid, flush=True)
time.sleep(600)
"""


WARNED_AS_ROOT = """
import os
os.getuid = os.geteuid = lambda: 0
from celery.platforms import check_privileges
check_privileges(["json"])
"""


def what_root_is_told(options: list[str], code: str = WARNED_AS_ROOT) -> str:
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=True
    ).stderr


def test_the_worker_of_one_machine_warns_nobody_for_being_root_and_of_all_else() -> None:
    command = worker_command(1)
    options = command[1 : command.index("-m")]
    assert "superuser privileges" in what_root_is_told([])
    assert what_root_is_told(options) == ""
    assert "another" in what_root_is_told(options, "import warnings; warnings.warn('another')")


def eventually(condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {within_s} s"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Running:
    """A supervising process and all it has said, on both channels."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    @property
    def said(self) -> str:
        return "".join(list(self.lines))

    def find(self, pattern: str, times: int = 1) -> str:
        """The `times`-th match's first group, waited for."""
        eventually(lambda: len(re.findall(pattern, self.said)) >= times, f"{pattern!r} in {self.said}")
        return str(re.findall(pattern, self.said)[times - 1])

    def pid(self, name: str, times: int = 1) -> int:
        return int(self.find(rf"(?m)^{name} pid (\d+)$", times))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        status = self.process.wait(timeout=PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status


@contextmanager
def running(command: list[str], environment: dict[str, str] | None = None) -> Iterator[Running]:
    run = Running(command, environment or dict(os.environ))
    try:
        yield run
    finally:
        run.process.kill()  # takes its services with it
        run.process.wait()


@contextmanager
def supervising(*codes: str, grace_s: float = 20) -> Iterator[Running]:
    with running([sys.executable, "-c", SUPERVISE, str(grace_s), *codes]) as run:
        yield run


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a migrated site with its files collected."""
    environment = os.environ | {
        "STAFFLOOP_VAR": str(tmp_path_factory.mktemp("site")),
        "DJANGO_SETTINGS_MODULE": "tests.labs.serve_settings",
    }
    for name in ("DATABASE_URL", "BROKER_URL"):
        environment.pop(name, None)
    for command in (["migrate", "-v0"], ["collectstatic", "-v0", "--noinput"]):
        subprocess.run([sys.executable, "manage.py", *command], cwd=ROOT, env=environment, check=True)
    return environment


def refusal(arguments: list[str], environment: dict[str, str]) -> tuple[int, list[str]]:
    """Exit status and the lines of a `serve` that is expected to refuse."""
    done = subprocess.run(
        [*SERVE, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


# The whole thing


def test_serve_answers_restarts_what_is_killed_and_stops_cleanly(site: dict[str, str]) -> None:
    with running([*SERVE, "--port", "0", "--workers", "1"], site) as run:
        url = run.find(r"answers at (http://127\.0\.0\.1:\d+/)")
        assert fetch(url) == "127.0.0.1", "the client's address must survive the handed-over socket"
        run.find(r"celery@\S+ (ready)")

        os.kill(run.pid("worker"), signal.SIGKILL)
        assert run.find(r"(worker was killed by SIGKILL; starting it again)")
        run.find(r"celery@\S+ (ready)", times=2)
        assert is_alive(run.pid("worker", times=2))

        os.kill(run.pid("web"), signal.SIGKILL)
        run.pid("web", times=2)
        assert fetch(url) == "127.0.0.1"  # on the same port; the kernel kept the caller waiting

        run.signal(signal.SIGTERM)
        assert run.wait() == 0
        last = [run.pid("web", times=2), run.pid("worker", times=2)]
        assert not any(map(is_alive, last))
        assert "Traceback" not in run.said


def test_killing_serve_itself_leaves_no_process(site: dict[str, str]) -> None:
    with running([*SERVE, "--port", "0", "--workers", "1"], site) as run:
        run.find(r"celery@\S+ (ready)")
        services = [run.pid("web"), run.pid("worker")]
        eventually(lambda: descendants(services[1]), "the worker's warm server")
        family = services + descendants(services[1])
        run.signal(signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, family)), "the end of all")


def descendants(pid: int) -> list[int]:
    listing = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    parents = {int(line.split()[0]): int(line.split()[1]) for line in listing.splitlines()}
    children = [child for child, parent in parents.items() if parent == pid]
    return children + [below for child in children for below in descendants(child)]


# What it refuses


def test_a_busy_port_is_one_clear_line_and_exit_2(site: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refusal(["--port", str(port)], site) == (
            2,
            [f"port: {port} is in use; choose another with --port"],
        )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--port", "70000"], "port: must be 0 to 65535, not 70000"),
        (["--host", "192.0.2.1"], "host: cannot listen at 192.0.2.1:8000: "),  # nobody's: for documentation
    ],
)
def test_a_wrong_address_is_one_clear_line_and_exit_2(
    site: dict[str, str], arguments: list[str], line: str
) -> None:
    status, (said,) = refusal(arguments, site)
    assert status == 2
    assert said.startswith(line)


def test_unapplied_migrations_are_one_clear_line_and_exit_2(site: dict[str, str], tmp_path: Path) -> None:
    status, (line,) = refusal(["--port", "0"], site | {"STAFFLOOP_VAR": str(tmp_path)})
    assert status == 2
    assert re.fullmatch(r"database: \d+ migrations are not applied; run `manage.py migrate` first", line)


def test_uncollected_static_files_are_one_clear_line_and_exit_2(site: dict[str, str], tmp_path: Path) -> None:
    environment = site | {"STAFFLOOP_VAR": str(tmp_path)}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=environment, check=True)
    assert refusal(["--port", "0"], environment) == (
        2,
        ["static files: not collected; run `manage.py collectstatic` first"],
    )


# Supervision


def test_a_second_signal_stops_at_once() -> None:
    with supervising(STUBBORN, grace_s=600) as run:
        run.find("(deaf)")
        service = run.pid("s0")
        run.signal(signal.SIGINT)
        run.find("(a second signal stops at once)")
        run.signal(signal.SIGINT)
        assert run.wait() == 0
        assert not is_alive(service)


def test_a_service_that_does_not_end_is_killed_after_the_grace_period() -> None:
    with supervising(STUBBORN, SLEEP, grace_s=5) as run:
        run.find("(deaf)")
        begun = time.monotonic()
        run.signal(signal.SIGTERM)
        assert run.wait() == 0
        assert time.monotonic() - begun >= 4.9
        assert "s0 did not end in time" in run.said
        assert "s1 did not" not in run.said


def test_restarts_wait_longer_each_time_and_do_not_disturb_the_other_service() -> None:
    with supervising("raise SystemExit(7)", SLEEP) as run:
        run.find(r"s0 ended with exit status 7; starting it again in (\S+) s", times=3)
        waits = [float(wait) for wait in re.findall(r"again in (\S+) s", run.said)]
        assert waits[:3] == [0.5, 1.0, 2.0]
        assert run.said.count("s1 pid") == 1


def test_what_a_crashed_service_left_behind_is_killed() -> None:
    with supervising(LEAVES_CHILD) as run:
        child = int(run.find(r"child pid (\d+)"))
        os.kill(run.pid("s0"), signal.SIGKILL)
        eventually(lambda: not is_alive(child), "the child's end")


def test_services_die_with_a_killed_supervisor() -> None:
    with supervising(SLEEP, SLEEP) as run:
        services = [run.pid("s0"), run.pid("s1")]
        run.signal(signal.SIGKILL)
        eventually(lambda: not any(map(is_alive, services)), "the services' end")
