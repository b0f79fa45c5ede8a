"""Many learners wait on one web process: what it costs, and how soon all of them hear of a change.

`python -m tests.bench.bench_streams [--streams 500] [--json]` starts uvicorn on a data folder of its own, opens one
stream for each of as many learners, moves all runs to `running` in one UPDATE, then to `cancelled`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
OPENED_AT_ONCE = 40


def prepare(streams: int) -> list[tuple[str, str]]:
    """(run's id, ticket) of as many learners, each with a queued run."""
    from django.core.management import call_command
    from django.utils import timezone

    from labs.models import Lab, Run, StreamTicket
    from labs.streaming.tickets import digest_of
    from quiz.models import Learner

    call_command("migrate", verbosity=0)
    lab = Lab.objects.create(slug="moe-eplb", title="Lab")
    learners = Learner.objects.bulk_create(Learner(username=f"learner-{n}") for n in range(streams))
    runs = Run.objects.bulk_create(Run(lab=lab, learner=one, params={}, seed=0) for one in learners)
    tickets = [secrets.token_urlsafe(32) for _ in runs]
    late = timezone.now() + timedelta(minutes=10)
    StreamTicket.objects.bulk_create(
        StreamTicket(run=run, digest=digest_of(ticket), expires_at=late)
        for run, ticket in zip(runs, tickets, strict=True)
    )
    return [(str(run.public_id), ticket) for run, ticket in zip(runs, tickets, strict=True)]


@asynccontextmanager
async def web() -> AsyncIterator[tuple[int, int]]:
    """(process id, port) of a web process like the one that `manage.py serve` starts."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        command = [sys.executable, "-m", "uvicorn", "config.asgi:application", "--fd", str(listener.fileno())]
        command += ["--lifespan", "off", "--no-access-log", "--log-level", "warning"]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[listener.fileno()])
        try:
            yield process.pid, listener.getsockname()[1]
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


class Stream:
    """One waiting learner: a socket, read as it comes."""

    def __init__(self, run: str, ticket: str) -> None:
        self.request = (
            f"GET /api/v1/runs/{run}/events/?ticket={ticket} HTTP/1.1\r\n"
            "Host: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )
        self.heard = b""

    async def open(self, port: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
            self.writer.write(self.request.encode())
            await self.until(b'"queued"')

    async def until(self, words: bytes) -> float:
        """When these words had come, by time.monotonic()."""
        while words not in self.heard:
            part = await self.reader.read(4096)
            if not part:
                raise ConnectionError(f"ended before {words!r}: {self.heard[-300:]!r}")
            self.heard += part
        return time.monotonic()

    async def end(self) -> None:
        await self.until(b"0\r\n\r\n")  # the last chunk
        self.writer.close()


def database_connections(pid: int) -> int:
    """Of the web process. SQLite closes a file only when no connection of the process holds a lock on it."""
    from django.db import connection

    if connection.vendor == "sqlite":
        targets = []
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                targets.append(os.readlink(path))
        return sum(target.endswith("db.sqlite3") for target in targets)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def resources(pid: int) -> dict[str, int]:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return {
        "rss_mib": int(status["VmRSS"].split()[0]) // 1024,
        "threads": int(status["Threads"]),
        "database_connections": database_connections(pid),
    }


async def measure(places: list[tuple[str, str]]) -> dict[str, Any]:
    from labs.models import Run

    async with web() as (pid, port), asyncio.timeout(PATIENCE_S):
        warm = Stream(*places[0])  # imports and URL conf
        await warm.open(port, asyncio.Semaphore(1))
        before = await asyncio.to_thread(resources, pid)
        streams = [Stream(*place) for place in places[1:]]
        began = time.monotonic()
        gate = asyncio.Semaphore(OPENED_AT_ONCE)
        await asyncio.gather(*(one.open(port, gate) for one in streams))
        opened_s = time.monotonic() - began
        waiting = await asyncio.to_thread(resources, pid)
        changed = time.monotonic()
        await Run.objects.aupdate(state="running", tries=1)
        heard = sorted(await asyncio.gather(*(one.until(b'"running"') for one in streams)))
        delays = [moment - changed for moment in heard]
        await Run.objects.aupdate(state="cancelled")
        await asyncio.gather(*(one.end() for one in [warm, *streams]))
        return {
            "streams": len(places),
            "opened_s": round(opened_s, 2),
            "heard_p50_s": round(delays[len(delays) // 2], 2),
            "heard_last_s": round(delays[-1], 2),
            "ended": len(places),
            "before": before,
            "waiting": waiting,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="staffloop-bench-") as folder:
        os.environ["STAFFLOOP_VAR"] = folder
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
        os.environ["LOG_LEVEL"] = "WARNING"
        Path(folder, "static").mkdir()
        import django

        django.setup()
        result = asyncio.run(measure(prepare(chosen.streams)))
    if chosen.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:<14} {value}")


if __name__ == "__main__":
    main()
