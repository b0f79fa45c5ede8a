"""Database and broker servers of the harness's own: free ports, own data, killed and restarted at will."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from simworkers.forked_child import die_with_parent

PATIENCE_S = 180.0


class Lacking(Exception):
    """A program that is not installed here."""


class Server(Protocol):
    url: str

    def start(self) -> None: ...

    def kill(self) -> None:
        """At once and without a farewell."""

    def stop(self) -> None: ...


def die_with_me() -> Callable[[], None]:
    """For a process that must not outlive this one, even where this one is killed."""
    parent = os.getpid()
    return lambda: die_with_parent(parent)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def program(name: str, *folders: str) -> str:
    """The path of a program. Lacking if there is none."""
    for folder in folders:
        for path in sorted(Path("/").glob(f"{folder}/{name}".lstrip("/")), reverse=True):
            return str(path)
    if found := shutil.which(name):
        return found
    raise Lacking(name)


def is_installed(name: str, *folders: str) -> bool:
    try:
        program(name, *folders)
    except Lacking:
        return False
    return True


def wait_for(answers: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not answers():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not answer within {patience_s:.0f} s")
        time.sleep(0.1)


def talks(port: int, question: bytes, answer: bytes) -> bool:
    """Whether the server at `port` answers like one that is ready."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as link:
            link.sendall(question)
            return link.recv(64).startswith(answer)
    except OSError:
        return False


class Postgres:
    """initdb and pg_ctl, as the user `postgres` where we are root, since PostgreSQL refuses root."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "postgres"
        self.port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        self._bin = Path(program("pg_ctl", "usr/lib/postgresql/*/bin")).parent
        self._log = folder / "postgres.log"
        self.data.mkdir()
        self._log.touch()
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            for path in (self.data, self._log):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-D", str(self.data))

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._bin / name), *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", timeout=PATIENCE_S)

    def start(self) -> None:
        # fsync stays on in production; here the machine itself never loses power.
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-s", "-D", str(self.data), "-l", str(self._log), "-o", options)

    def kill(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-s", "-D", str(self.data), "-m", "immediate")

    def stop(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "stop", "-w", "-s", "-D", str(self.data), "-m", "fast")


class Redis:
    """Without persistence: a restart forgets every message."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "redis"
        self.folder.mkdir()
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._program = program("redis-server")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self.folder)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_me()
        )
        wait_for(lambda: talks(self.port, b"PING\r\n", b"+PONG"), "redis")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    stop = kill


class RabbitMQ:
    """A node of its own, with its own port mapper; a restart keeps what is durable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "rabbitmq"
        self.folder.mkdir()
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}//"
        # Debian's wrapper in /usr/sbin insists on the user rabbitmq; the script behind it does not.
        self._program = program("rabbitmq-server", "usr/lib/rabbitmq/bin")
        mapper_port = str(free_port())
        plugins, settings, nothing = (self.folder / name for name in ("plugins", "node.conf", "env.conf"))
        plugins.write_text("[].")
        settings.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        nothing.touch()
        self._environment = os.environ | {
            "HOME": str(self.folder),  # where the node keeps its cookie
            "ERL_EPMD_PORT": mapper_port,
            "RABBITMQ_NODENAME": f"faults-{os.getpid()}@localhost",
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": str(nothing),  # else the machine's own node's
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        # Run here, or the node starts one that outlives it.
        mapper = [program("epmd"), "-port", mapper_port, "-address", "127.0.0.1"]
        self._mapper = subprocess.Popen(
            mapper, stdout=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_me()
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._program],
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_me(),
            )
        # A node that does not speak yet closes the connection; one that is ready answers Connection.Start.
        wait_for(lambda: talks(self.port, b"AMQP\x00\x00\x09\x01", b"\x01"), "rabbitmq")

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> None:
        self.kill()
        self._mapper.kill()
        self._mapper.wait()


BROKERS: dict[str, Callable[[Path], Server]] = {"redis": Redis, "rabbitmq": RabbitMQ}
