"""Names → jobs: which labs exist, what they take and report, and where their code lives.

Imports pydantic and the standard library alone. A web process reads schemas from here; torch, numpy and the
drawing libraries load only when `resolve` is called for a function that needs them.
"""

import functools
import hashlib
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from simworkers.agents.job import AGENT_ROUTING
from simworkers.jobs import Job
from simworkers.moe.job import MOE_EPLB
from simworkers.multimodal.job import MULTIMODAL_CACHE


class UnknownLab(KeyError):
    """Asked for a lab that is not here."""

    def __str__(self) -> str:
        return str(self.args[0])


_JOBS = {job.name: job for job in (MOE_EPLB, MULTIMODAL_CACHE, AGENT_ROUTING)}

_ROOT = Path(__file__).parent


def job_names() -> tuple[str, ...]:
    """All labs, in catalogue order."""
    return tuple(_JOBS)


def get_job(name: str) -> Job:
    """The lab called `name`; UnknownLab otherwise."""
    try:
        return _JOBS[name]
    except KeyError:
        raise UnknownLab(f"there is no lab {name!r}; there are: {', '.join(_JOBS)}") from None


def _source_files(name: str) -> Iterator[Path]:
    for pattern in get_job(name).sources:
        for path in sorted(_ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


@functools.cache
def engine_version(name: str) -> str:
    """First 16 hex digits of a SHA-256 over the lab's sources and data, names and lengths included."""
    get_job(name)
    digest = hashlib.sha256()
    for path in _source_files(name):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_ROOT).as_posix()}:{len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def resolve(dotted: str) -> Callable[..., Any]:
    """The function behind "package.module:function", imported when asked for."""
    module, _, function = dotted.partition(":")
    found = getattr(importlib.import_module(module), function)
    assert callable(found), dotted
    return found  # type: ignore[no-any-return]
