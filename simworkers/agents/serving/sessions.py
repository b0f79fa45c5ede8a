"""Which turn is sent when: sessions that follow one another, agents inside them that wait for each other.

Closed loop: as many sessions as are let in at once; when one ends, the next begins. Where sessions come at times of
their own, each begins at its time, however many are open. Times in femtoseconds.
"""

from collections import deque
from collections.abc import Iterator

from simworkers.agents.serving.cost import FS_PER_US
from simworkers.agents.serving.workload import Workload

Sent = tuple[int, int]  # (when, turn)


class Sessions:
    """A turn's end sends what it starts: the next turn of its agent, and agents that run side by side. The turn behind
    such a start waits for all of them; so does an agent's first turn, where others open it."""

    def __init__(self, workload: Workload, at_once: int, start_gap: int = 0) -> None:
        self.workload, self.at_once, self.start_gap = workload, at_once, start_gap
        self._to_come = deque(range(len(workload.begins)))
        self._open_streams: dict[int, int] = {}  # session → streams that have not ended
        self._waits: dict[int, int] = {}  # turn → streams it started that have not ended
        self._to_open: dict[int, int] = {}  # stream → streams that open it and have not ended
        self._started_by = {stream: turn for turn, streams in workload.starts.items() for stream in streams}
        self._opens = {stream: opened for opened, streams in workload.opens.items() for stream in streams}
        self._streams_of = [0] * len(workload.begins)
        for first, _ in workload.streams:
            self._streams_of[workload.turns[first].session] += 1
        self._ended: list[int] = []

    @property
    def is_over(self) -> bool:
        return not self._to_come and not self._open_streams

    def begin(self) -> list[Sent]:
        """The first sessions; all of them, where they come at times of their own."""
        sent: list[Sent] = []
        for at_us in self.workload.arrivals_us or ():
            sent += self._begin_next(at_us * FS_PER_US)
        for place in range(min(self.at_once, len(self._to_come))):
            sent += self._begin_next(place * self.start_gap)
        return sent

    def finish(self, turn: int, at: int) -> list[Sent]:
        """What the end of a turn sends."""
        return list(self._finish(turn, at))

    def take_ended(self) -> list[int]:
        """Sessions that ended since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _begin_next(self, at: int) -> list[Sent]:
        session = self._to_come.popleft()
        self._open_streams[session] = self._streams_of[session]
        return [sent for stream in self.workload.begins[session] for sent in self._start(stream, at)]

    def _start(self, stream: int, at: int) -> Iterator[Sent]:
        """Its first turn, or those of the streams that open it."""
        opening = self.workload.opens.get(stream)
        if not opening:
            yield self._turn(self.workload.streams[stream][0], at)
            return
        self._to_open[stream] = len(opening)
        for first in opening:
            yield from self._start(first, at)

    def _turn(self, turn: int, at: int) -> Sent:
        return at + self.workload.turns[turn].think_us * FS_PER_US, turn

    def _finish(self, turn: int, at: int) -> Iterator[Sent]:
        started = self.workload.starts.get(turn)
        if not started:
            yield from self._go_on(turn, at)
            return
        self._waits[turn] = len(started)
        for stream in started:
            yield from self._start(stream, at)

    def _go_on(self, turn: int, at: int) -> Iterator[Sent]:
        """The turn is over, and so is all that it started."""
        stream = self.workload.turns[turn].stream
        if turn + 1 < self.workload.streams[stream][1]:
            yield self._turn(turn + 1, at)
            return
        session = self.workload.turns[turn].session
        self._open_streams[session] -= 1
        if not self._open_streams[session]:
            del self._open_streams[session]
            self._ended.append(session)
            if self._to_come:
                yield from self._begin_next(at)
        opened = self._opens.get(stream)
        if opened is not None:
            self._to_open[opened] -= 1
            if not self._to_open[opened]:
                del self._to_open[opened]
                yield self._turn(self.workload.streams[opened][0], at)
        starter = self._started_by.get(stream)
        if starter is not None:
            self._waits[starter] -= 1
            if not self._waits[starter]:
                del self._waits[starter]
                yield from self._go_on(starter, at)
