"""Where recorded traces lie: the Django storage that the settings call "traces", a folder or a bucket.

Every upload is stored under a name of its own that is never given again, so that whoever lost a race removes only what
they brought. A storage needs save, open, delete, exists, listdir and get_modified_time, and no locks.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import IO

from django.conf import settings
from django.core.files import File
from django.core.files.storage import Storage, storages
from django.utils import timezone

from labs.models import TraceFile
from quiz.errors import InvalidInput, Refusal

log = logging.getLogger(__name__)

CHUNK_BYTES = 2**18
# An upload may be under way for this long before its file has a row.
ORPHAN_AFTER = timedelta(hours=1)
CACHED_FOR_S = 24 * 3600


class TooLarge(Refusal):
    """A file above the limit; nothing of it is kept."""

    status = 413
    slug = "body-too-large"
    title = HTTPStatus.REQUEST_ENTITY_TOO_LARGE.phrase  # as of any other body


class Unreadable(Exception):
    """A stored file is not there, cannot be fetched, or is not what was stored: our fault."""


@dataclass(frozen=True)
class Received:
    """A file that has come in whole, in a temporary file without a name."""

    content: IO[bytes]
    digest: str
    count_bytes: int


def storage() -> Storage:
    return storages["traces"]


@contextlib.contextmanager
def receive(parts: Iterable[bytes], *, at: str) -> Iterator[Received]:
    """The file that these parts make. TooLarge while it comes in; InvalidInput at `at` where there is nothing."""
    digest, count = hashlib.sha256(), 0
    with tempfile.TemporaryFile() as content:  # without a name: gone with the process, however that ends
        for part in parts:
            count += len(part)
            if count > settings.TRACE_LIMIT_BYTES:
                raise TooLarge(
                    f"A trace may have at most {settings.TRACE_LIMIT_BYTES:,} bytes as it is sent."
                )
            digest.update(part)
            content.write(part)
        if not count:
            raise InvalidInput([(at, "is an empty file")])
        content.seek(0)
        yield Received(content, digest.hexdigest(), count)


def keep(received: Received) -> str:
    """Store it; its location."""
    name = f"{received.digest}-{uuid.uuid4().hex[:12]}"
    received.content.seek(0)
    return storage().save(name, File(received.content, name))


def remove(location: str) -> None:
    """Take a file away that no row names any more. What fails is an orphan, and the sweeper's."""
    try:
        storage().delete(location)
    except OSError as exc:
        log.warning("trace %s: could not be removed, the sweeper tries again: %s", location, exc)


def is_sound(file: TraceFile) -> bool:
    """Whether the storage itself, not a copy, holds the bytes of its hash."""
    digest = hashlib.sha256()
    try:
        with storage().open(file.location) as stored:
            for part in stored.chunks(CHUNK_BYTES):
                digest.update(part)
    except Exception as exc:  # a storage raises its client's own errors, whichever that is
        log.warning("%s: what is stored as %s cannot be read: %s", file, file.location, exc)
        return False
    return digest.hexdigest() == file.digest


def local_path(file: TraceFile) -> Path:
    """Where this machine has the file, fetched if need be, its bytes compared with its hash. Raises Unreadable."""
    path = own_path(file.location)
    if path is None:
        path = settings.TRACE_CACHE_DIR / file.digest
        if has_hash(path, file.digest):
            os.utime(path)  # used: kept for another day
            return path
        fetch(file, path)
    if not has_hash(path, file.digest):
        raise Unreadable(f"{file}: what is stored as {file.location} is missing or not what was stored")
    return path


def own_path(location: str) -> Path | None:
    """The storage's own file, where it keeps files on this machine."""
    try:
        return Path(storage().path(location))
    except NotImplementedError:
        return None


def fetch(file: TraceFile, path: Path) -> None:
    """Copy from the storage; whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with storage().open(file.location) as source, draft.open("xb") as target:
            for part in source.chunks(CHUNK_BYTES):
                target.write(part)
        draft.replace(path)
    except Exception as exc:  # a storage raises its client's own errors, whichever that is
        raise Unreadable(f"{file}: could not be fetched: {type(exc).__name__}: {exc}") from exc
    finally:
        draft.unlink(missing_ok=True)


def has_hash(path: Path, digest: str) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False


def remove_orphans() -> int:
    """Files that no row names and that no upload may still be about to name; how many. Old copies from storages too."""
    forget_copies()
    try:
        _, names = storage().listdir("")
    except FileNotFoundError:
        return 0  # nothing was ever stored
    long_ago = timezone.now() - ORPHAN_AFTER
    unnamed = set(names) - set(TraceFile.objects.values_list("location", flat=True))
    removed = 0
    for name in sorted(unnamed):
        with contextlib.suppress(FileNotFoundError):  # another sweeper was faster
            if storage().get_modified_time(name) < long_ago:
                remove(name)
                removed += 1
    if removed:
        log.warning("%d stored trace(s) without a row were removed", removed)
    return removed


def forget_copies() -> None:
    """Fetched copies that nothing has used for a day."""
    if not settings.TRACE_CACHE_DIR.is_dir():
        return
    for path in settings.TRACE_CACHE_DIR.iterdir():
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - CACHED_FOR_S:
                path.unlink()
