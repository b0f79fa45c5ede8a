"""Celery alone, on the broker and with the worker settings of the site: what a message costs that does nothing.

`celery -A tests.bench.noop worker …` with the site's environment. The task says when it began, by a datagram.
"""

import os
import runpy
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from celery import Celery

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "bench-noop"
PREFIX = "CELERY_"


class BareCelery(Celery):
    """Without the fixup that looks after Django's connections around each task."""

    builtin_fixups: set[str] = set()


def bare_app(environment: Mapping[str, str]) -> Celery:
    """An app with the `CELERY_` settings that a site with this environment has, and no Django."""
    with patch.dict(os.environ, environment, clear=True):
        settings = runpy.run_path(str(ROOT / "config" / "settings.py"))
    bare = BareCelery("noop", set_as_current=False)
    bare.conf.update(
        {name[len(PREFIX) :].lower(): value for name, value in settings.items() if name.startswith(PREFIX)}
    )
    bare.conf.task_default_queue = QUEUE
    return bare


app = bare_app(os.environ)


@app.task(name="noop")
def noop(listener: str) -> None:
    """Send the wall clock's seconds to the socket at `listener`."""
    began_s = time.time()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.sendto(repr(began_s).encode(), listener)
