"""`manage.py serve`: Staffloop on one machine. Starts and supervises the web process and one Celery worker."""

import errno
import os
import socket
import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import OperationalError

from labs.management.supervisor import Service, Supervisor, Watch

ROOT = Path(__file__).resolve().parents[3]
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def at_least_one(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


class Command(BaseCommand):
    help = "Run the web process and one worker on this machine, and keep them running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
        parser.add_argument(
            "--port", type=int, default=8000, help="0 picks a free one (default: %(default)s)"
        )
        parser.add_argument(
            "--workers",
            type=at_least_one,
            default=max(2, (os.cpu_count() or 1) - 1),
            help="runs computed at the same time (default here: %(default)s)",
        )
        parser.add_argument(
            "--grace",
            type=at_least_one,
            default=30,
            metavar="SECONDS",
            help="how long a stop waits for running simulations (default: %(default)s)",
        )

    def handle(self, *args: Any, host: str, port: int, workers: int, grace: int, **options: Any) -> None:
        self.require_migrations()
        self.require_static_files()
        listener = self.listen(host, port)
        port = listener.getsockname()[1]
        url_host = f"[{host}]" if ":" in host else host
        supervisor = Supervisor(
            [web_service(listener), Service("worker", worker_command(workers), folder=ROOT)],
            grace_s=grace,
            say=self.say,
        )
        reachable = EVERY_ADDRESS.get(host, host)
        supervisor.run(
            Watch(reachable, port, lambda: self.say(f"Staffloop answers at http://{url_host}:{port}/"))
        )

    def say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def refuse(self, line: str) -> NoReturn:
        self.stderr.write(line)
        sys.exit(2)

    def require_migrations(self) -> None:
        """Exit 2 with one line unless the database answers and has every migration."""
        try:
            executor = MigrationExecutor(connection)
            missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        except OperationalError as error:
            self.refuse(f"database: {str(error).splitlines()[0]}")
        finally:
            connections.close_all()
        if missing:
            self.refuse(f"database: {len(missing)} migrations are not applied; run `manage.py migrate` first")

    def require_static_files(self) -> None:
        """Exit 2 with one line unless the pages' files have been collected: without them no page renders."""
        if not (Path(settings.STATIC_ROOT) / "staticfiles.json").exists():
            self.refuse("static files: not collected; run `manage.py collectstatic` first")

    def listen(self, host: str, port: int) -> socket.socket:
        """Bind here, so that a busy port is found before anything starts and a restarted web process keeps it."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family, backlog=128)
        except OverflowError:
            self.refuse(f"port: must be 0 to 65535, not {port}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                self.refuse(f"port: {port} is in use; choose another with --port")
            reason = str(error.strerror).partition(" (while")[0]  # Python adds what it was doing
            self.refuse(f"host: cannot listen at {host}:{port}: {reason}")
        # Accepted connections inherit this; the web server, which gets a bare number, does not set it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener


def web_service(listener: socket.socket) -> Service:
    command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--fd", str(listener.fileno())]
    command += ["--lifespan", "off", "--no-access-log", "--no-proxy-headers", "--no-server-header"]
    command += ["--log-level", "warning", "--timeout-graceful-shutdown", "5"]
    return Service("web", command, folder=ROOT, keep_fds=[listener.fileno()])


# Celery warns whoever runs a worker as root, lest a message from elsewhere be unpickled there. This worker takes JSON
# alone, and on one's own machine, or in a container, root is usual. Other warnings are shown.
AS_ROOT = "ignore:You're running the worker with superuser privileges"


def worker_command(concurrency: int) -> list[str]:
    # Threads are enough: each waits for a simulation in a process of its own.
    command = [sys.executable, "-W", AS_ROOT, "-m", "celery", "--quiet", "-A", "config", "worker"]
    command += ["-P", "threads", "-c", str(concurrency), "-O", "fair", "--loglevel", "warning"]
    return [*command, "--without-gossip", "--without-mingle", "--without-heartbeat"]
