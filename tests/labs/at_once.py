"""Two who act at the same moment: one just before a statement of the other."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection

HEAD_START_S = 0.5  # far more than a few statements take
PATIENCE_S = 30.0


@contextlib.contextmanager
def meanwhile(statement: str, act: Callable[[], Any]) -> Iterator[list[BaseException]]:
    """Just before a statement that begins so, somebody else acts, and is waited for unless the database makes them
    wait for us; what they run into.
    """
    failures: list[BaseException] = []

    def work() -> None:
        try:
            act()
        except Exception as exc:
            failures.append(exc)
        finally:
            connection.close()

    other = threading.Thread(target=work, daemon=True)  # one that hangs ends with the process

    def watch(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith(statement) and other.ident is None:
            other.start()
            other.join(timeout=HEAD_START_S)
        return execute(sql, *rest)

    try:
        with connection.execute_wrapper(watch):
            yield failures
    finally:
        if other.ident is not None:
            other.join(timeout=PATIENCE_S)
    assert other.ident is not None, "no such statement"
    assert not other.is_alive(), f"it still waits, {PATIENCE_S:.0f} s later"
