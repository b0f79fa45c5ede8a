"""Recorded traffic in two public formats, plain or gzip: sessions of agents, and requests without sessions.

One JSON object a line. A line that cannot be used is named with its field and costs nothing but itself; what is
repaired is said as well. Times become whole microseconds since the session began.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from simworkers.agents.traffic.trace_fields import (
    WHOLE_LINE,
    Refused,
    read_blocks,
    read_time_us,
    read_whole,
    shown,
)
from simworkers.agents.traffic.trace_file import BadTrace, read_lines
from simworkers.agents.traffic.trace_notes import Note, Notes
from simworkers.agents.traffic.trace_rows import count_parts, parse_line

MAX_TEXT_BYTES = 512 * 2**20  # of a whole trace, decompressed
MAX_LINE_BYTES = 64 * 2**20
MAX_LINES = 2_000_000
MAX_PARTS = 5_000_000  # objects, lists and strings of a whole trace; a request has some twenty
MAX_REQUESTS = 250_000
MAX_REFUSED_LINES = 10_000  # one of two bytes takes as long to read as a good one
MAX_DEPTH = 8  # subagents inside subagents
REQUESTS_BLOCK_SIZE = 512  # of the format without sessions, whose rows do not say it
SERVICE_TIMES = ("api_time", "duration", "ttft")  # in s, the first that a row has
EVIDENT_S = 60.0  # a subagent that starts later than this tells from where its times count

NEITHER = (
    "is neither a session (block_size, requests; in each of them t, in, out, hash_ids) nor a request (timestamp, "
    "input_length, output_length, hash_ids)"
)

SubagentTimes = Literal["marker", "session"]


@dataclass(frozen=True)
class TraceRequest:
    """One request. blocks: [n] ids of the prompt's blocks, the last perhaps partly filled.

    `place` counts the session's requests as they stand in the file, where a subagent's stand between two of the agent
    that started it: it starts after the one before ends, and the one behind waits for it.
    """

    at_us: int
    input_tokens: int
    output_tokens: int
    blocks: NDArray[np.int64]
    agent: str | None = None  # the subagent that sent it; a name is one subagent's within a session
    think_us: int | None = None  # before it, where the trace says so
    place: int = 0
    parent: str | None = None  # the agent that started `agent`; None: the session's own
    service_us: int | None = (
        None  # from sending to the answer's end; of a row that says no more, to its first token
    )


@dataclass(frozen=True)
class Session:
    """One agent's requests, in order of (time, place in the file). `space`: sessions that share it share block ids."""

    id: str
    number: int
    space: int
    block_size: int
    requests: tuple[TraceRequest, ...]
    start_us: int = 0  # when it began; neither format says, so all sessions of a file begin together
    side_by_side: int = 1  # most of its agents at once, as they stand in the file


@dataclass
class Trace:
    """All sessions of a file in its order, and what was noticed while reading: the first notes, and counts of all."""

    sessions: list[Session] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    lines_refused: int = 0
    repairs: int = 0
    subagent_times: SubagentTimes = "marker"
    has_sessions: bool = True  # else rows of requests, which may well belong together and do not say so

    def positions(self) -> list[tuple[Session, int]]:
        """Of every request, by (time, session number, position), all sessions starting at time 0."""
        keyed = [
            ((request.at_us, session.number, position), session)
            for session in self.sessions
            for position, request in enumerate(session.requests)
        ]
        keyed.sort(key=lambda row: row[0])
        return [(session, key[2]) for key, session in keyed]

    def in_order(self) -> Iterator[tuple[Session, TraceRequest]]:
        """Every request in that order."""
        for session, position in self.positions():
            yield session, session.requests[position]


def read_trace(source: BinaryIO) -> Trace:
    """Read a whole trace. BadTrace where no line of it can be used, or above a limit."""
    reading = _Reading()
    for number, line in enumerate(read_lines(source, MAX_TEXT_BYTES, MAX_LINE_BYTES), start=1):
        if number > MAX_LINES:
            raise BadTrace(f"the trace has more than {MAX_LINES:,} lines")
        if line.strip():
            reading.take(number, line)
    return reading.trace()


@dataclass
class _Reading:
    """A trace line by line. Of a line stays what is used of it, or a note."""

    notes: Notes = field(default_factory=Notes)  # of lines that no file could use
    sessions: "list[_Flat]" = field(default_factory=list)
    rows: list[TraceRequest] = field(default_factory=list)
    row_lines: list[int] = field(default_factory=list)  # of each row
    other_notes: list[tuple[int, str, str]] = field(
        default_factory=list
    )  # of what is neither a session nor a row
    votes: Counter[SubagentTimes] = field(default_factory=Counter)
    parts: int = 0
    requests: int = 0

    def take(self, number: int, line: bytes) -> None:
        """BadTrace where the file becomes too large by it."""
        self.parts += count_parts(line)
        if self.parts > MAX_PARTS:
            raise BadTrace(f"the trace has more than {MAX_PARTS:,} objects, lists and strings")
        try:
            self._take(number, parse_line(line))
        except Refused as error:
            self.notes.add([_refusal(number, error.field, error.message)])
        if self.notes.refused + len(self.other_notes) > MAX_REFUSED_LINES:
            others = (_refusal(*note) for note in self.other_notes)
            first = next(iter(self.notes.kept or others))
            raise BadTrace(f"more than {MAX_REFUSED_LINES:,} lines cannot be used; {first}")
        if self.requests > MAX_REQUESTS:
            raise BadTrace(f"the trace has more than {MAX_REQUESTS:,} requests")

    def _take(self, number: int, row: dict[str, Any]) -> None:
        """What a line is, it says itself."""
        if isinstance(row.get("requests"), list):
            self.votes.update(_times_count_from(row["requests"]))
            self.sessions.append(_flatten(number, row))
            self.requests += len(self.sessions[-1].requests)
        elif "timestamp" in row or "input_length" in row:
            self.rows.append(_read_row(row, len(self.rows)))
            self.row_lines.append(number)
            self.requests += 1
        elif "requests" in row:
            self.other_notes.append((number, "requests", "must be a list"))
        else:
            self.other_notes.append((number, WHOLE_LINE, NEITHER))

    def trace(self) -> Trace:
        """Of the kind that more lines have; of as many, that of the first. Lines of the other kind are refused."""
        times: SubagentTimes = "session" if self.votes["session"] > self.votes["marker"] else "marker"
        sessions, notes = _by_time(self.sessions, times)
        session_lines = [flat.line for flat in self.sessions]
        if self._are_sessions(len(sessions)):
            trace = Trace(sessions, subagent_times=times)
            strange = [(line, "requests", "must be a list") for line in self.row_lines]
        else:
            trace, notes = Trace([_one_session(self.rows)], has_sessions=False), Notes()
            strange = [(line, "requests", "make a session, in a file of requests") for line in session_lines]
        refused = Notes()
        refused.add(_refusal(*one) for one in sorted(strange + self.other_notes))
        notes = self.notes.merged(notes).merged(refused)
        if not trace.sessions:
            raise BadTrace(str(notes.kept[0]) if notes.kept else "there is no line in this trace")
        trace.notes, trace.lines_refused, trace.repairs = notes.kept, notes.refused, notes.repaired
        return trace

    def _are_sessions(self, usable: int) -> bool:
        if usable != len(self.rows):
            return usable > len(self.rows)
        return not self.rows or self.sessions[0].line < self.row_lines[0]


def _refusal(line: int, name: str, message: str) -> Note:
    return Note(line, name, message, is_refused=True)


def _by_time(flats: "Iterable[_Flat]", times: SubagentTimes) -> tuple[list[Session], Notes]:
    """The sessions that can be used where times count from there."""
    sessions: list[Session] = []
    notes = Notes()
    for flat in flats:
        if times == "marker" and flat.fault is not None:
            notes.add([_refusal(flat.line, flat.fault.field, flat.fault.message)])
            continue
        sessions.append(flat.session(len(sessions), times))
        notes.add(Note(flat.line, name, message, is_refused=False) for name, message in flat.notes)
    return sessions, notes


def _flatten(line: int, row: dict[str, Any]) -> "_Flat":
    block_size = read_whole(row, "block_size", "", least=1, most=2**20)
    scope = row.get("hash_id_scope", "local")
    if scope not in ("local", "global"):
        raise Refused("hash_id_scope", f"must be local or global, not {shown(scope)}")
    flat = _Flat(line, str(row["id"])[:200] if "id" in row else None, scope == "global", block_size)
    flat.side_by_side = flat.take(row["requests"], "requests", 0, _OWN, depth=0)
    if not flat.requests:
        raise Refused("requests", "has no request")
    return flat


@dataclass(frozen=True)
class _Agent:
    name: str | None
    parent: str | None


_OWN = _Agent(None, None)  # the session itself


@dataclass
class _Flat:
    """A session's requests, taken out of the agents that they are nested in: in order of the file, those of subagents
    where their marker stands. Times count from markers until the whole file has told from where they do."""

    line: int
    id: str | None
    is_global: bool  # its block ids
    block_size: int
    requests: list[TraceRequest] = field(default_factory=list)
    markers_us: list[int] = field(default_factory=list)  # in the time of each request
    notes: list[tuple[str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)  # of subagents so far
    fault: Refused | None = None  # of a marker's time, which may not count
    side_by_side: int = 1

    def session(self, number: int, times: SubagentTimes) -> Session:
        """Its requests by time."""
        requests = self.requests
        if times == "session":
            requests = [
                replace(request, at_us=request.at_us - marker_us)
                for request, marker_us in zip(requests, self.markers_us, strict=True)
            ]
        ordered = sorted(requests, key=lambda request: request.at_us)  # stable: equal times keep their place
        if any(a is not b for a, b in zip(ordered, requests, strict=True)):
            self.notes.append(("requests", "were not in order of time, and were sorted"))
        name = f"session {number}" if self.id is None else self.id
        space = -1 if self.is_global else number
        return Session(name, number, space, self.block_size, tuple(ordered), side_by_side=self.side_by_side)

    def take(self, items: list[Any], at: str, marker_us: int, agent: _Agent, depth: int) -> int:
        """How many agents of the list run side by side at most. marker_us: added to times."""
        most = beside = 0  # an agent waits for those that it has started
        for index, item in enumerate(items):
            place = f"{at}[{index}]"
            if not isinstance(item, dict):
                raise Refused(place, "is no JSON object")
            if item.get("type") != "subagent":
                self._take_request(item, place, marker_us, agent)
                most, beside = max(most, 1), 0
                continue
            if depth == MAX_DEPTH:
                raise Refused(place, f"subagents are nested more than {MAX_DEPTH} deep")
            inner = item.get("requests")
            if not isinstance(inner, list):
                raise Refused(f"{place}.requests", "must be a list")
            if not inner:
                self.notes.append((f"{place}.requests", "is an empty subagent, and was left out"))
                continue
            inner_us = marker_us + self._marker_us(item, place)
            started = _Agent(self._name(item.get("agent_id"), place), agent.name)
            beside += self.take(inner, f"{place}.requests", inner_us, started, depth + 1)
            most = max(most, beside)
        return most

    def _take_request(self, item: dict[str, Any], place: str, marker_us: int, agent: _Agent) -> None:
        tokens = read_whole(item, "in", place)
        self.markers_us.append(marker_us)
        self.requests.append(
            TraceRequest(
                at_us=marker_us + read_time_us(item, "t", place),
                input_tokens=tokens,
                output_tokens=read_whole(item, "out", place),
                blocks=read_blocks(item, tokens, self.block_size, place),
                agent=agent.name,
                think_us=None if item.get("think_time") is None else read_time_us(item, "think_time", place),
                place=len(self.requests),
                parent=agent.parent,
                service_us=self._service_us(item, place),
            )
        )

    def _marker_us(self, item: dict[str, Any], place: str) -> int:
        try:
            return read_time_us(item, "t", place)
        except Refused as error:
            self.fault = self.fault or error
            return 0

    def _service_us(self, item: dict[str, Any], place: str) -> int | None:
        """What is no time is left out: no cache depends on it."""
        for name in SERVICE_TIMES:
            if item.get(name) is not None:
                try:
                    return read_time_us(item, name, place)
                except Refused as error:
                    self.notes.append((error.field, f"{error.message}; it was left out"))
        return None

    def _name(self, given: Any, place: str) -> str:
        """A name that no other subagent of the session has: its own if it may, else with its place behind it."""
        name = place if given is None else str(given)[:200]
        if name in self.names:
            if given is not None:
                self.notes.append(
                    (f"{place}.agent_id", "names an earlier subagent too; the two are told apart")
                )
            name = f"{name} at {place}"
            while name in self.names:
                name += "'"
        self.names.add(name)
        return name


def _read_row(row: dict[str, Any], place: int) -> TraceRequest:
    """A row without session."""
    tokens = read_whole(row, "input_length", "")
    return TraceRequest(
        at_us=read_time_us(row, "timestamp", "", unit_us=1000),
        input_tokens=tokens,
        output_tokens=read_whole(row, "output_length", ""),
        blocks=read_blocks(row, tokens, REQUESTS_BLOCK_SIZE, ""),
        place=place,
    )


def _one_session(rows: list[TraceRequest]) -> Session:
    """Of rows without sessions, whose ids hold for the whole file."""
    ordered = sorted(rows, key=lambda request: request.at_us)
    return Session("all", 0, 0, REQUESTS_BLOCK_SIZE, tuple(ordered))


def _times_count_from(items: list[Any]) -> Iterator[SubagentTimes]:
    """From where the subagents' times of one session count: their marker, or the session's start as in some corpora.
    One answer a file, by majority.

    A subagent whose marker stands at a minute or later tells: counted from the session its first request cannot be
    earlier than the marker. Without a majority of such, the marker.
    """
    for item in items:
        if not isinstance(item, dict) or item.get("type") != "subagent":
            continue
        inner, start = item.get("requests"), item.get("t")
        first = (
            inner[0].get("t") if isinstance(inner, list) and inner and isinstance(inner[0], dict) else None
        )
        if isinstance(start, (int, float)) and isinstance(first, (int, float)) and start >= EVIDENT_S:
            yield "session" if first >= start else "marker"
