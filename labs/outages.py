"""What a worker does while the database server restarts: it goes on, and asks again.

A run that is being computed needs the database only to say that it is alive and, at its end, to hand in the result.
Giving it up because a server was away for two seconds would cost one of its tries.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, close_old_connections

from labs.runner import Beat

log = logging.getLogger(__name__)

T = TypeVar("T")
AWAY = (OperationalError, InterfaceError)
PATIENCE_S = 60.0
PAUSE_S = 0.5


def persistently(change: Callable[[], T], patience_s: float | None = None) -> T:
    """Make a change, again while the database is away; raises its error after `patience_s` (PATIENCE_S) seconds.

    Only for changes that may be made twice, since an answer may be lost after the commit: conditional updates.
    Outside of a transaction.
    """
    deadline = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
    while True:
        try:
            return change()
        except AWAY as exc:
            if time.monotonic() >= deadline:
                raise
            log.warning("the database is away, trying again: %s", exc)
            time.sleep(PAUSE_S)
            close_old_connections()  # the broken one among them


def tolerant(beat: Beat) -> Beat:
    """A heartbeat that takes an absent database for a yes.

    Nobody can claim the run there either; when it is back, it says whether the lease still holds. The run's time
    limit stands.
    """

    def go_on(steps: tuple[int, int] | None) -> bool:
        try:
            return beat(steps)
        except AWAY as exc:
            log.warning("the database is away, computing on: %s", exc)
            close_old_connections()
            return True

    return go_on
