"""The damage: seeded, logged, each undone after a while where it does not mend itself."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from celery import current_app
from django.conf import settings

from labs.models import Run
from tests.faults.census import patiently
from tests.faults.processes import Process, Site, children_of, warm_server_of
from tests.faults.servers import Server

FOLDER_SIZE = "4m"


class Skipped(Exception):
    """This fault cannot be made here, or hit nothing."""


class BrokerFolder:
    """The embedded broker's folder as a file system of its own, which can be full or read-only. Needs root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={FOLDER_SIZE}", "tmpfs", str(folder)]
        self.is_mounted = os.getuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0

    def remount(self, mode: str) -> None:
        """`ro` or `rw`. The kernel refuses `ro` while a file is being written, for a moment."""
        for _ in range(100):
            if not subprocess.run(
                ["mount", "-o", f"remount,{mode}", str(self.folder)], capture_output=True
            ).returncode:
                return
            time.sleep(0.02)
        raise Skipped(f"remount {mode} refused")

    def fill(self) -> None:
        with contextlib.suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    def mend(self) -> None:
        """Writable and empty of filler again, whichever fault it was: two may overlap."""
        self.remount("rw")
        (self.folder / "filler").unlink(missing_ok=True)

    def unmount(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.folder)], capture_output=True)


class Injector:
    def __init__(
        self,
        site: Site,
        *,
        database: Server | None,
        broker: Server | None,
        folder: BrokerFolder | None,
        chance: random.Random,
        say: Callable[[str], None],
    ) -> None:
        self.site, self.database, self.broker, self.folder = site, database, broker, folder
        self.chance, self.say = chance, say
        self.done: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self._undo: list[tuple[float, Callable[[], object]]] = []
        everywhere = [self.kill_worker, self.terminate_worker, self.freeze_worker, self.kill_child]
        everywhere += [self.kill_warm_server, self.kill_web, self.send_twice, self.send_late]
        if broker is None:
            here = [self.lock_database, self.fill_folder, self.make_folder_read_only, self.lose_messages]
        else:
            here = [self.restart_broker, self.restart_database]
        self.kinds = everywhere + here

    def plan(self, number: int) -> list[Callable[[], str]]:
        """`number` faults in a drawn order, each kind before any comes again."""
        drawn: list[Callable[[], str]] = []
        while len(drawn) < number:
            drawn += self.chance.sample(self.kinds, len(self.kinds))
        return drawn[: max(number, len(self.kinds))]

    def inject(self, fault: Callable[[], str]) -> None:
        name = fault.__name__.replace("_", " ")
        try:
            self.say(f"{name}: {fault()}")
            self.done[name] += 1
        except Skipped as why:
            self.say(f"{name}: skipped: {why}")
            self.skipped[name] += 1

    def later(self, seconds: float, undo: Callable[[], object]) -> None:
        self._undo.append((time.monotonic() + seconds, undo))

    def tend(self, *, now: bool = False) -> None:
        """Undo what has lasted long enough, or everything."""
        due = [row for row in self._undo if now or row[0] <= time.monotonic()]
        self._undo = [row for row in self._undo if row not in due]
        for _, undo in due:
            undo()

    # Processes

    def _signal(self, process: Process, number: signal.Signals) -> str:
        if not process.signal(number):
            raise Skipped(f"{process.name} was not running")
        return f"{process.name} {number.name}"

    def kill_worker(self) -> str:
        return self._signal(self.chance.choice(self.site.workers), signal.SIGKILL)

    def terminate_worker(self) -> str:
        return self._signal(self.chance.choice(self.site.workers), signal.SIGTERM)

    def freeze_worker(self) -> str:
        """Longer than a lease: others take its runs, and what it brings afterwards comes too late."""
        worker = self.chance.choice(self.site.workers)
        said = self._signal(worker, signal.SIGSTOP)
        self.later(settings.RUN_LEASE_S + 3, lambda: worker.signal(signal.SIGCONT))
        return said

    def kill_web(self) -> str:
        return self._signal(self.site.web, signal.SIGKILL)

    def kill_warm_server(self) -> str:
        worker = self.chance.choice(self.site.workers)
        return self._kill([warm_server_of(worker)], f"of {worker.name}")

    def kill_child(self) -> str:
        """The oldest child found on any worker, within a moment of looking: small runs are short."""
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            for worker in self.chance.sample(self.site.workers, len(self.site.workers)):
                if found := children_of(warm_server_of(worker)):
                    return self._kill(found[:1], f"of {worker.name}")
            time.sleep(0.02)
        raise Skipped("nothing was being computed")

    @staticmethod
    def _kill(pids: Sequence[int | None], what: str) -> str:
        try:
            for pid in pids:
                if pid is None:
                    raise Skipped(f"there was none {what}")
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError as error:
            raise Skipped("it had ended") from error
        return what

    # Servers

    def restart_broker(self) -> str:
        assert self.broker is not None
        return self._restart(self.broker)

    def restart_database(self) -> str:
        assert self.database is not None
        return self._restart(self.database)

    def _restart(self, server: Server) -> str:
        away_s = self.chance.uniform(0, 3)
        server.kill()
        time.sleep(away_s)
        server.start()
        return f"killed, started again {away_s:.1f} s later"

    def lock_database(self) -> str:
        """SQLite's counterpart of a database that is away: another process holds its write lock."""
        seconds = self.chance.uniform(1, 4)
        link = sqlite3.connect(str(settings.DATABASES["default"]["NAME"]), timeout=30, isolation_level=None)
        link.execute("BEGIN IMMEDIATE")
        self.later(seconds, link.close)
        return f"for {seconds:.1f} s"

    # Messages

    def send_twice(self) -> str:
        """Five copies of the messages of runs that wait or are computed, at once."""
        rows = patiently(lambda: list(Run.objects.active().values_list("pk", flat=True)[:5]))
        return self._publish(rows * 5)

    def send_late(self) -> str:
        rows = patiently(
            lambda: list(Run.objects.filter(finished_at__isnull=False).values_list("pk", flat=True))
        )
        return self._publish(self.chance.sample(rows, min(20, len(rows))))

    def send_everything_again(self) -> None:
        with contextlib.suppress(Skipped):
            self._publish(patiently(lambda: list(Run.objects.values_list("pk", flat=True))))

    def _publish(self, rows: list[int]) -> str:
        sent = 0
        for row in rows:
            # Whatever the broker says now: a fault that hits nothing is none.
            with contextlib.suppress(Exception):
                current_app.send_task("labs.run_lab", args=[row], retry=False)
                sent += 1
        if not sent:
            raise Skipped("no message was sent")
        return f"{sent} messages"

    def lose_messages(self) -> str:
        lost = 0
        for path in list((Path(settings.VAR_DIR) / "broker" / "queues").glob("*/*")):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                lost += 1
        return f"{lost} messages"

    def fill_folder(self) -> str:
        folder = self._own_folder()
        folder.fill()
        self.later(3, folder.mend)
        return "for 3 s"

    def make_folder_read_only(self) -> str:
        folder = self._own_folder()
        folder.remount("ro")
        self.later(3, folder.mend)
        return "for 3 s"

    def _own_folder(self) -> BrokerFolder:
        if self.folder is None or not self.folder.is_mounted:
            raise Skipped("mounting a small tmpfs needs root")
        self.folder.mend()
        return self.folder
