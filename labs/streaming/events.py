"""What a run's row has to tell, as events in one order. Pure: rows in, events out.

Events are not stored. A run passes through stages that its row remembers (how often it was tried, how far it
came, what it ended with), so whatever an id has not seen yet can be told again from the row: every change of state,
the newest progress, and the end. Only progress in between is not repeated.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

ACTIVE = ("queued", "running")
GRADED = "graded"
# The stage of every end; no run is tried so often.
END = 1_000_000


class Position(NamedTuple):
    """An event's place, and its id: the stage, and within the stage 0 for its beginning, then steps + 1."""

    stage: int
    part: int

    def __str__(self) -> str:
        return f"{self.stage}.{self.part}"


BEFORE_ALL = Position(-1, 0)


def position_of(event_id: str) -> Position:
    """The place behind an id that we sent. ValueError for any other text."""
    stage, dot, part = event_id.partition(".")
    if not (dot and stage.isascii() and part.isascii() and stage.isdigit() and part.isdigit()):
        raise ValueError(f"{event_id!r} is no id of this stream")
    if len(event_id) > 20:
        raise ValueError("an id of this stream is shorter")
    return Position(int(stage), int(part))


@dataclass(frozen=True)
class Snapshot:
    """A run's row, as far as it is told."""

    state: str
    tries: int
    done: int
    total: int | None
    reason: str
    figures: bool

    @property
    def stage(self) -> int:
        """Queued before the n-th return: 2n; running for the n-th time: 2n - 1; every end: END."""
        return {"queued": 2 * self.tries, "running": 2 * self.tries - 1}.get(self.state, END)

    @property
    def is_terminal(self) -> bool:
        return self.state not in ACTIVE

    @property
    def is_over(self) -> bool:
        """Nothing more will come."""
        return self.is_terminal and (self.state != GRADED or self.figures)


@dataclass(frozen=True)
class Event:
    position: Position
    name: str
    data: dict[str, Any]

    def encode(self) -> str:
        """As text/event-stream; JSON has no line break outside its strings, and escapes those inside."""
        return f"id: {self.position}\nevent: {self.name}\ndata: {json.dumps(self.data)}\n\n"


def events_after(seen: Position, now: Snapshot) -> Iterator[Event]:
    """Everything that the row tells beyond `seen`, in order."""
    return (event for event in story(now) if event.position > seen)


def story(now: Snapshot) -> Iterator[Event]:
    """All that is known of the run, from its queueing on."""
    # Whether it was queued again after its last try, before it ended, its row does not say.
    last_active = 2 * now.tries - 1 if now.is_terminal else now.stage
    for stage in range(max(last_active, 0) + 1):
        yield Event(Position(stage, 0), "state", state_of(stage, now))
    if now.total is not None and now.tries and now.state in ("running", GRADED):
        progress = {"done": now.done, "total": now.total}
        yield Event(Position(last_active, now.done + 1), "progress", progress)
    if now.is_terminal:
        ended = {"state": now.state, "try": now.tries, "reason": now.reason}
        yield Event(Position(END, 0), "state", ended)
    if now.state == GRADED:
        yield Event(Position(END, 1), "result-ready", {})
        if now.figures:
            yield Event(Position(END, 2), "figures-ready", {})


def state_of(stage: int, now: Snapshot) -> dict[str, Any]:
    running = stage % 2 == 1
    # The row keeps the reason of the last return to the queue only.
    reason = now.reason if stage == now.stage and not running else ""
    return {"state": "running" if running else "queued", "try": (stage + 1) // 2, "reason": reason}
