"""Files that a run is given beside its parameters, as a recorded trace. A parameter names a file by the SHA-256 of its
bytes, so that it says all that decides the run; where the file lies is a matter of this machine.
"""

import functools
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import BinaryIO

from pydantic import BaseModel

from simworkers.jobs import InvalidParameter

DIGEST_PATTERN = r"^[0-9a-f]{64}$"
WORD_DEFAULT = "default"  # the trace that a lab's author chose; replaced by its hash before a run is queued

_NOTHING: Mapping[str, str] = MappingProxyType({})
_given: ContextVar[Mapping[str, str]] = ContextVar("given", default=_NOTHING)


@functools.cache
def trace_fields(params: type[BaseModel]) -> tuple[str, ...]:
    """Names of a lab's parameters that may name a recorded trace: of `format` "trace" in their schema."""
    properties = params.model_json_schema().get("properties", {})
    return tuple(name for name, part in properties.items() if part.get("format") == "trace")


def is_digest(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(DIGEST_PATTERN, value) is not None


@contextmanager
def given(files: Mapping[str, str | os.PathLike[str]]) -> Iterator[None]:
    """Inside, `open_input` finds these files: SHA-256 as 64 lower-case hex digits → path."""
    token = _given.set({digest: os.fspath(path) for digest, path in files.items()})
    try:
        yield
    finally:
        _given.reset(token)


def default_digest() -> str | None:
    """The hash of the trace that the lab's author chose; None where none is given."""
    files = _given.get()
    if WORD_DEFAULT not in files:
        return None
    found = [name for name, path in files.items() if is_digest(name) and path == files[WORD_DEFAULT]]
    assert found, "the default trace is given without its hash"
    return found[0]


def open_input(digest: str, field: str = "trace") -> BinaryIO:
    """The file of this hash, to be closed by the caller. InvalidParameter names the field where none is given."""
    try:
        return open(_given.get()[digest], "rb")
    except KeyError:
        raise InvalidParameter(
            f"{field}: no file with the hash {digest[:80]!r} is given to this run"
        ) from None
