"""Recorded traffic in two public formats, plain or gzip: sessions of agents, and requests without sessions.

One JSON object a line. A line that cannot be used is named with its field and costs nothing but itself; what is
repaired is said as well. Times become whole microseconds since the session began.
"""

import io
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

MAX_TEXT_BYTES = 512 * 2**20  # of a whole trace, decompressed
MAX_LINE_BYTES = 64 * 2**20
MAX_TOKENS = 2**31
MAX_SECONDS = 10 * 366 * 86_400
MAX_DEPTH = 8  # subagents inside subagents
REQUESTS_BLOCK_SIZE = 512  # of the format without sessions, whose rows do not say it
EVIDENT_S = 60.0  # a subagent that starts later than this tells from where its times count

Order = tuple[int, int, int]
SubagentTimes = Literal["marker", "session"]


class BadTrace(ValueError):
    """Nothing of this file can be used, or it is too large; the message says why."""


@dataclass(frozen=True)
class Note:
    """What was refused, or repaired, at one place of the file."""

    line: int  # from 1
    field: str
    message: str
    is_refused: bool  # False: repaired, and used

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: {self.message}"


@dataclass(frozen=True)
class TraceRequest:
    """One request. blocks: [n] ids of the prompt's blocks, the last perhaps partly filled."""

    at_us: int
    input_tokens: int
    output_tokens: int
    blocks: NDArray[np.int64]
    agent: str | None = None  # the subagent that sent it
    think_us: int | None = None  # before it, where the trace says so


@dataclass(frozen=True)
class Session:
    """One agent's requests, in order of (time, place in the file). `space`: sessions that share it share block ids."""

    id: str
    number: int
    space: int
    block_size: int
    requests: tuple[TraceRequest, ...]


@dataclass
class Trace:
    """All sessions of a file in its order, and what was noticed while reading."""

    sessions: list[Session] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    subagent_times: SubagentTimes = "marker"

    def in_order(self) -> Iterator[tuple[Session, TraceRequest]]:
        """Every request by (time, session number, position), all sessions starting at time 0."""
        keyed = [
            ((request.at_us, session.number, position), session, request)
            for session in self.sessions
            for position, request in enumerate(session.requests)
        ]
        keyed.sort(key=lambda row: row[0])
        for _, session, request in keyed:
            yield session, request


class _Refused(ValueError):
    """(field, message) of something that cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


def read_trace(source: BinaryIO) -> Trace:
    """Read a whole trace. BadTrace where no line of it can be used."""
    rows: list[tuple[int, dict[str, Any]]] = []
    notes: list[Note] = []
    for number, line in enumerate(_lines(source), start=1):
        if line.strip():
            try:
                rows.append((number, _parse(line)))
            except _Refused as error:
                notes.append(Note(number, error.field, error.message, is_refused=True))
    if not rows:
        raise BadTrace(str(notes[0]) if notes else "there is no line in this trace")
    trace = _read_sessions(rows) if any("requests" in row for _, row in rows) else _read_requests(rows)
    trace.notes = sorted(notes + trace.notes, key=lambda note: note.line)
    if not trace.sessions:
        raise BadTrace(str(trace.notes[0]))
    return trace


def _lines(source: BinaryIO) -> Iterator[bytes]:
    """Lines of a plain or gzip file, told apart by its first bytes. BadTrace above the limits."""
    buffered: io.BufferedReader[Any] = io.BufferedReader(source)
    chunks = (
        _inflate(buffered) if buffered.peek(2)[:2] == b"\x1f\x8b" else iter(lambda: buffered.read(2**18), b"")
    )
    whole, rest = 0, b""
    for chunk in chunks:
        whole += len(chunk)
        if whole > MAX_TEXT_BYTES:
            raise BadTrace(f"the trace has more than {MAX_TEXT_BYTES // 2**20} MiB of text")
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if len(rest) > MAX_LINE_BYTES:
            raise BadTrace(f"a line has more than {MAX_LINE_BYTES // 2**20} MiB")
    if rest:
        yield rest


def _inflate(source: "io.BufferedReader[Any]") -> Iterator[bytes]:
    """gzip, member after member, in pieces of bounded size however much a member would swell."""
    unzip, has_ended = zlib.decompressobj(wbits=31), True
    fed = b""
    while fed or (fed := source.read(2**16)):
        has_ended = False
        try:
            piece = unzip.decompress(fed, 2**18)
        except zlib.error as error:
            raise BadTrace(f"this is no whole gzip file: {error}") from error
        if piece:
            yield piece
        fed = unzip.unconsumed_tail
        if unzip.eof:
            fed, unzip, has_ended = unzip.unused_data, zlib.decompressobj(wbits=31), True
    if not has_ended:
        raise BadTrace("this gzip file ends in the middle")


def _parse(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise _Refused("line", f"is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _Refused("line", "is no JSON object")
    return row


def _read_sessions(rows: Iterable[tuple[int, dict[str, Any]]]) -> Trace:
    trace = Trace()
    rows = list(rows)
    trace.subagent_times = _times_count_from(row for _, row in rows)
    for line, row in rows:
        number = len(trace.sessions)
        try:
            session, notes = _read_session(row, number, trace.subagent_times)
        except _Refused as error:
            trace.notes.append(Note(line, error.field, error.message, is_refused=True))
            continue
        trace.sessions.append(session)
        trace.notes += [Note(line, name, message, is_refused=False) for name, message in notes]
    return trace


def _read_session(
    row: dict[str, Any], number: int, times: SubagentTimes
) -> tuple[Session, list[tuple[str, str]]]:
    if not isinstance(row.get("requests"), list):
        raise _Refused("requests", "must be a list")
    block_size = _whole(row, "block_size", "", least=1, most=2**20)
    scope = row.get("hash_id_scope", "local")
    if scope not in ("local", "global"):
        raise _Refused("hash_id_scope", f"must be local or global, not {scope!r}")
    notes: list[tuple[str, str]] = []
    requests = list(_flatten(row["requests"], "requests", 0, None, block_size, times, notes, depth=0))
    if not requests:
        raise _Refused("requests", "has no request")
    ordered = sorted(requests, key=lambda request: request.at_us)  # stable: equal times keep their place
    if any(a is not b for a, b in zip(ordered, requests, strict=True)):
        notes.append(("requests", "were not in order of time, and were sorted"))
    name = str(row.get("id", f"session {number}"))[:200]
    return Session(name, number, -1 if scope == "global" else number, block_size, tuple(ordered)), notes


def _flatten(
    items: list[Any],
    at: str,
    base_us: int,
    agent: str | None,
    block_size: int,
    times: SubagentTimes,
    notes: list[tuple[str, str]],
    depth: int,
) -> Iterator[TraceRequest]:
    """Requests in the order of the file, those of subagents where their marker stands. base_us: added to every time."""
    for index, item in enumerate(items):
        place = f"{at}[{index}]"
        if not isinstance(item, dict):
            raise _Refused(place, "is no JSON object")
        if item.get("type") != "subagent":
            yield _read_request(item, place, base_us, agent, block_size)
            continue
        if depth == MAX_DEPTH:
            raise _Refused(place, f"subagents are nested more than {MAX_DEPTH} deep")
        inner = item.get("requests")
        if not isinstance(inner, list):
            raise _Refused(f"{place}.requests", "must be a list")
        if not inner:
            notes.append((f"{place}.requests", "is an empty subagent, and was left out"))
            continue
        start_us = base_us + _time_us(item, "t", place) if times == "marker" else base_us
        name = str(item.get("agent_id", f"{place}"))[:200]
        yield from _flatten(inner, f"{place}.requests", start_us, name, block_size, times, notes, depth + 1)


def _read_request(
    item: dict[str, Any], place: str, base_us: int, agent: str | None, block_size: int
) -> TraceRequest:
    tokens = _whole(item, "in", place)
    return TraceRequest(
        at_us=base_us + _time_us(item, "t", place),
        input_tokens=tokens,
        output_tokens=_whole(item, "out", place),
        blocks=_blocks(item, tokens, block_size, place),
        agent=agent,
        think_us=None if item.get("think_time") is None else _time_us(item, "think_time", place),
    )


def _read_requests(rows: Iterable[tuple[int, dict[str, Any]]]) -> Trace:
    """Rows without sessions form one session, whose ids hold for the whole file."""
    trace, requests = Trace(), []
    for line, row in rows:
        try:
            tokens = _whole(row, "input_length", "")
            requests.append(
                TraceRequest(
                    at_us=_time_us(row, "timestamp", "", unit_us=1000),
                    input_tokens=tokens,
                    output_tokens=_whole(row, "output_length", ""),
                    blocks=_blocks(row, tokens, REQUESTS_BLOCK_SIZE, ""),
                )
            )
        except _Refused as error:
            trace.notes.append(Note(line, error.field, error.message, is_refused=True))
    if requests:
        ordered = sorted(requests, key=lambda request: request.at_us)
        trace.sessions.append(Session("all", 0, 0, REQUESTS_BLOCK_SIZE, tuple(ordered)))
    return trace


def _times_count_from(rows: Iterable[dict[str, Any]]) -> SubagentTimes:
    """From where a subagent's times count: its marker, or the session's start as in some corpora. One answer a file.

    A subagent whose marker stands at a minute or later tells: counted from the session its first request cannot be
    earlier than the marker. Without a majority of such, the marker.
    """
    votes = {"marker": 0, "session": 0}
    for row in rows:
        items = row.get("requests")
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict) or item.get("type") != "subagent":
                continue
            inner, start = item.get("requests"), item.get("t")
            first = (
                inner[0].get("t")
                if isinstance(inner, list) and inner and isinstance(inner[0], dict)
                else None
            )
            if isinstance(start, (int, float)) and isinstance(first, (int, float)) and start >= EVIDENT_S:
                votes["session" if first >= start else "marker"] += 1
    return "session" if votes["session"] > votes["marker"] else "marker"


def _whole(row: dict[str, Any], name: str, place: str, least: int = 0, most: int = MAX_TOKENS) -> int:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _Refused(
            _field(place, name), f"must be a whole number in {least} … {most}, not {_shown(value)}"
        )
    return value


def _time_us(row: dict[str, Any], name: str, place: str, unit_us: int = 1_000_000) -> int:
    value = row.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and 0 <= value <= MAX_SECONDS * 1_000_000 // unit_us:  # type: ignore[operator]  # false for NaN
        return round(value * unit_us)  # type: ignore[operator]
    raise _Refused(_field(place, name), f"must be a time from 0 on, not {_shown(value)}")


def _blocks(row: dict[str, Any], tokens: int, block_size: int, place: str) -> NDArray[np.int64]:
    """Whole blocks of the prompt, and perhaps the last one in part."""
    ids, name = row.get("hash_ids"), _field(place, "hash_ids")
    if not isinstance(ids, list):
        raise _Refused(name, "must be a list")
    fewest, most = tokens // block_size, -(-tokens // block_size)
    if not fewest <= len(ids) <= most:
        raise _Refused(
            name, f"has {len(ids)} blocks; {tokens} tokens have {fewest} to {most} of {block_size}"
        )
    try:
        blocks = np.array(ids)
        if ids and (
            blocks.dtype.kind not in "iu" or blocks.ndim != 1 or any(type(one) is bool for one in ids)
        ):
            raise ValueError
        return blocks.astype(np.int64)
    except (ValueError, OverflowError):
        raise _Refused(name, "must hold whole numbers below 2**63") from None


def _field(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
