"""One poller for all runs that somebody of this process waits for.

A waiting learner costs a coroutine, no thread of their own that asks and no database connection: twice a second one
query reads all watched rows in one thread, and who waits for a row that changed is woken. A watcher keeps only the
newest state of its row, so a slow reader holds up nobody and nothing piles up.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import Context
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import close_old_connections, connections
from django.db.models import Exists, OuterRef
from django.db.utils import Error as DatabaseTrouble

from labs.models import Figure, Run
from labs.streaming.events import Snapshot

log = logging.getLogger(__name__)

# Streams that this process holds open, by learner; changed in the event loop, read by the threads of requests.
open_streams: Counter[int] = Counter()


def read_snapshots(keys: Iterable[int]) -> dict[int, Snapshot]:
    """The rows that still are, in one query."""
    drawn = Exists(Figure.objects.filter(run=OuterRef("pk")))
    rows = Run.objects.filter(pk__in=list(keys)).annotate(drawn=drawn)
    fields = ("pk", "state", "tries", "steps_done", "steps_total", "reason", "drawn")
    return {pk: Snapshot(*values) for pk, *values in rows.values_list(*fields)}


class Watcher:
    """The newest state of one run, for one stream. None: the run is gone."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self.snapshot = snapshot
        self._changed = asyncio.Event()

    def tell(self, snapshot: Snapshot | None) -> None:
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self._changed.set()

    async def changed(self, within_s: float) -> bool:
        """Wait for news; False where none came in time."""
        try:
            await asyncio.wait_for(self._changed.wait(), within_s)
        except TimeoutError:
            return False
        self._changed.clear()
        return True


class Hub:
    """The watchers of one event loop, and the poller that runs while there are any."""

    def __init__(self) -> None:
        self._watchers: dict[int, set[Watcher]] = {}
        self._poller: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watch(self, run_pk: int, first: Snapshot) -> AsyncIterator[Watcher]:
        watcher = Watcher(first)
        self._watchers.setdefault(run_pk, set()).add(watcher)
        if self._poller is None:
            # In a context of its own: its log lines belong to no request.
            loop = asyncio.get_running_loop()
            self._poller = loop.create_task(self._poll(), name="run-poller", context=Context())
        try:
            yield watcher
        finally:
            left = self._watchers[run_pk]
            left.discard(watcher)
            if not left:
                del self._watchers[run_pk]

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="run-poller")
        try:
            while self._watchers:
                self._tell(await loop.run_in_executor(thread, self._read, list(self._watchers)))
                await asyncio.sleep(settings.STREAM_POLL_S)
        finally:
            self._poller = None
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)

    @staticmethod
    def _read(keys: list[int]) -> dict[int, Snapshot | None]:
        """What there is to tell; nothing while the database does not answer."""
        close_old_connections()
        try:
            found = read_snapshots(keys)
        except DatabaseTrouble:
            log.exception("the watched runs could not be read; trying again")
            return {}
        return {key: found.get(key) for key in keys}

    def _tell(self, found: dict[int, Snapshot | None]) -> None:
        for key, snapshot in found.items():
            for watcher in self._watchers.get(key, ()):
                watcher.tell(snapshot)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
