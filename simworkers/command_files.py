"""Files that a command line names: read whole, or written whole. What goes wrong is the caller's, in one line."""

import os
import uuid
from pathlib import Path
from typing import Any

from simworkers import strict_json

MAX_FILE_BYTES = 32 * 2**20


class InvalidInput(Exception):
    """The caller's mistakes, each a `field: message` line."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))


def cannot_read(field: str, name: str, error: Exception) -> InvalidInput:
    """error: what opening or reading raised; a name that is none raises ValueError."""
    return InvalidInput(f"{field}: cannot read {name!r}: {_reason(error)}")


def read_file(name: str, field: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise cannot_read(field, name, error) from None
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(f"{field}: {name} is larger than {MAX_FILE_BYTES // 2**20} MiB")
    return data


def read_json(name: str, field: str) -> Any:
    data = read_file(name, field)
    try:
        return strict_json.parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput(f"{field}: {name} is not UTF-8 text") from None
    except RecursionError:
        raise InvalidInput(f"{field}: {name} is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"{field}: {name} is not JSON: {error}") from None


def writable(name: str) -> Path:
    """Where to write: a new file or a regular one. A device or pipe would be replaced, as /dev/null by a file."""
    try:
        path = Path(name).resolve()  # what a link names is written, not the link
        is_free = path.is_file() or not path.exists()
        is_allowed = path.parent.is_dir() and os.access(path.parent, os.W_OK)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # RuntimeError: links in a circle, before Python 3.13
        raise InvalidInput(f"out: cannot write {name!r}: {_reason(error)}") from None
    if not is_free or not is_allowed:
        raise InvalidInput(f"out: cannot write {name}")
    return path


def write_whole(path: Path, text: str) -> None:
    """All of it or nothing: a reader never finds half a report."""
    draft = path.with_name(f".{path.name[:80]}-{uuid.uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidInput(f"out: cannot write {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
