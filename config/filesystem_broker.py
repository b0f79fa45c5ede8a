"""A broker without a server: Celery messages as files, published and claimed atomically.

Settings, exactly (only while BROKER_URL is the embedded default; a real broker takes neither
`broker_transport` nor these options)::

    CELERY_BROKER_URL = "filesystem://"
    CELERY_BROKER_TRANSPORT = "config.filesystem_broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": str(VAR_DIR / "broker"), "polling_interval": 0.08}
    CELERY_WORKER_ENABLE_REMOTE_CONTROL = False

(kombu refuses a dotted name as a URL scheme, so the transport is named beside the URL. Remote control would
leave a mailbox behind for every worker name that ever lived; we cancel through the run's row anyway.)

The folder and its parts are made here, all on one file system because every hand-over is a rename::

    queues/<queue>/<wall ns>-<uuid>.json    messages, oldest name first
    writing/                                messages that are being written
    broken/                                 files that were no message, moved aside and logged
    exchanges/<name>.exchange, lock         which queues an exchange feeds

A message is written under `writing/` and renamed into its queue: a reader sees all of it or nothing. It is read,
then unlinked: of several readers exactly one unlink succeeds, and that reader owns the message. (kombu's own
transport writes in place and moves by copy across file systems: two pollers lost 83 of 6,000 messages, and an
empty file killed a worker.) Names carry the wall clock, since the monotonic clock starts anew with the machine.

No fsync: a power cut may lose the newest messages or leave them empty. Likewise the message that a killed worker
had taken is gone; nothing here redelivers. Both are by design: a run's row is the truth, the broker only wakes
workers, and the sweeper publishes again what was never picked up or whose lease ran out.
"""

import fcntl
import logging
import os
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any
from urllib.parse import quote

from kombu.exceptions import ChannelError
from kombu.transport import filesystem, virtual
from kombu.utils.json import dumps, loads

log = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    """kombu's file system channel with all its reading and writing replaced."""

    def __init__(self, connection: "Transport", **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self.queues = connection.folder / "queues"
        self.writing = connection.folder / "writing"
        self.broken = connection.folder / "broken"
        self.exchanges = connection.folder / "exchanges"
        for folder in (self.queues, self.writing, self.broken, self.exchanges):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The last listing of each queue, oldest first: one listing serves a whole backlog, not one message.
        self._listed: dict[str, deque[str]] = {}
        self._is_refused = False

    @property
    def control_folder(self) -> Path:
        return self.exchanges

    def _queue_folder(self, queue: str) -> Path:
        # A queue's name may hold dots and slashes, or be "..": quoting leaves no slash, the prefix no leading dot.
        return self.queues / ("q-" + quote(queue, safe="@"))

    def _names(self, queue: str) -> list[str]:
        try:
            return sorted(os.listdir(self._queue_folder(queue)))
        except FileNotFoundError:
            return []

    # Messages

    # The stubs call the second argument `message` in one base class and `payload` in the other.
    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Publish `message`. ChannelError if the disk refuses."""
        name = f"{time.time_ns():020d}-{uuid.uuid4().hex}.json"
        draft = self.writing / name
        try:
            draft.write_text(dumps(message), encoding="utf-8")
            try:
                draft.replace(self._queue_folder(queue) / name)
            except FileNotFoundError:
                self._new_queue(queue)
                draft.replace(self._queue_folder(queue) / name)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise ChannelError(f"cannot publish to {queue!r}: {error}") from error

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        """Claim and return the oldest message. Empty if there is none."""
        listed = self._listed.get(queue)
        if not listed:
            listed = self._listed[queue] = deque(self._names(queue))
        while listed:
            try:
                payload = self._claim(self._queue_folder(queue) / listed.popleft())
            except OSError as error:
                listed.clear()
                self._note_refusal(error)
                raise Empty from error
            if payload is not None:
                self._is_refused = False
                return payload
        raise Empty

    def _claim(self, path: Path) -> dict[str, Any] | None:
        """Return the message, or None if another reader was faster or the file is none.

        OSError where the file cannot be unlinked, as on a read-only disk: nobody owns the message then, and it stays.
        """
        try:
            text = path.read_bytes()
            payload = loads(text.decode("utf-8"))
            if not isinstance(payload, dict) or not {"body", "properties", "headers"} <= payload.keys():
                raise ValueError("not a message")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            self._set_aside(path, error)
            return None
        try:
            path.unlink()
        except FileNotFoundError:
            return None
        return payload

    def _note_refusal(self, error: OSError) -> None:
        """Once, until a message is claimed again: the next look is only moments away."""
        if not self._is_refused:
            log.error("no message can be taken: %s", error)
        self._is_refused = True

    def _set_aside(self, path: Path, error: Exception) -> None:
        try:
            path.rename(self.broken / f"{path.parent.name}-{path.name}")
        except FileNotFoundError:
            return  # another reader set it aside
        except OSError as refusal:
            log.error("cannot set broken message %s aside: %s", path, refusal)
            return
        log.error("set a broken message aside in %s: %s: %s", self.broken, path.name, error)

    def _new_queue(self, queue: str, **kwargs: Any) -> None:
        self._queue_folder(queue).mkdir(mode=0o700, parents=True, exist_ok=True)

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self._queue_folder(queue).is_dir()

    def _size(self, queue: str) -> int:
        return len(self._names(queue))

    def _purge(self, queue: str) -> int:
        """Drop all messages of `queue`; returns how many this call dropped."""
        dropped = 0
        for name in self._names(queue):
            try:
                (self._queue_folder(queue) / name).unlink()
            except FileNotFoundError:
                continue
            dropped += 1
        return dropped

    # Exchanges

    @contextmanager
    def _exchanges_locked(self) -> Iterator[None]:
        """Hold the lock under which tables change; the kernel drops it with its holder."""
        with (self.exchanges / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _exchange_file(self, exchange: str) -> Path:
        return self.exchanges / f"{quote(exchange, safe='@')}.exchange"

    def get_table(self, exchange: str) -> list[Any]:
        """Return the exchange's bindings; an unreadable table counts as empty and is written anew by the next bind."""
        file = self._exchange_file(exchange)
        try:
            return [filesystem.exchange_queue_t(*row) for row in loads(file.read_text(encoding="utf-8"))]
        except FileNotFoundError:
            return []
        except (ValueError, TypeError) as error:
            log.error("unreadable exchange table %s: %s", file, error)
            return []

    def _write_table(self, exchange: str, table: list[Any]) -> None:
        draft = self.writing / f"{uuid.uuid4().hex}.exchange"
        draft.write_text(dumps(table), encoding="utf-8")
        draft.replace(self._exchange_file(exchange))

    def _queue_bind(
        self, exchange: str, routing_key: str | None, pattern: str | None, queue: str | None
    ) -> None:
        row = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._exchanges_locked():
            table = self.get_table(exchange)
            if row not in table:
                self._write_table(exchange, [row, *table])

    def _delete(
        self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any
    ) -> None:
        """Unbind a queue and drop what it still holds."""
        self._purge(queue)
        row = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._exchanges_locked():
            table = self.get_table(exchange)
            if row in table:
                table.remove(row)
                self._write_table(exchange, table)


class Transport(filesystem.Transport):
    """Polls its folder; any number of processes of one machine may share it."""

    Channel = Channel
    driver_name = "staffloop-filesystem"
    polling_interval = 0.08  # seconds between two looks at an empty queue

    # Declared exchanges and bindings, per folder: kombu keeps one for all and would skip the second folder's tables.
    _states: dict[Path, virtual.BrokerState] = {}

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        folder = client.transport_options.get("folder")
        if not folder:
            raise ValueError("broker_transport_options: the file system broker needs a 'folder'")
        self.folder = Path(folder).absolute()
        self.state = self._states.setdefault(self.folder, virtual.BrokerState())

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {}  # no host and no port, and no warning that none was given
