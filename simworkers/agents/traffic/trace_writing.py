"""A trace as a file in the format of agent sessions, which `traces.read_trace` reads back."""

import gzip
import json
from typing import Any, BinaryIO

from simworkers.agents.traffic.traces import Session, Trace, TraceRequest

Row = dict[str, Any]


def write_trace(trace: Trace, file: BinaryIO, compress: bool = True) -> None:
    """One session a line. The same trace gives the same bytes: gzip carries neither a time nor a name.

    Read back, every request is as it was; lost are notes, start_us, which ids the sessions had where they are global,
    and of agents without a name in the file that they had none.
    """
    if not compress:
        file.writelines(_line(session) for session in trace.sessions)
        return
    with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.writelines(_line(session) for session in trace.sessions)


def _line(session: Session) -> bytes:
    row = {
        "id": session.id,
        "block_size": session.block_size,
        "hash_id_scope": "global" if session.space < 0 else "local",
        "requests": _nested(session.requests),
    }
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _nested(requests: tuple[TraceRequest, ...]) -> list[Row]:
    """Requests by place, a subagent's inside a marker that stands where its first one does."""
    starts = _starts(requests)
    parents = {request.agent: request.parent for request in requests}
    own: list[Row] = []
    stack: list[tuple[str | None, list[Row], int]] = [
        (None, own, 0)
    ]  # (agent, its rows, µs its times count from)
    for request in sorted(requests, key=lambda request: request.place):
        path = _path(request.agent, parents)
        while stack[-1][0] not in path:
            stack.pop()
        for agent in path[path.index(stack[-1][0]) + 1 :]:
            _, rows, outer_us = stack[-1]
            inner: list[Row] = []
            marker = {"type": "subagent", "agent_id": agent, "requests": inner}
            rows.append(_times(t=starts[agent] - outer_us) | marker)
            stack.append((agent, inner, starts[agent]))
        stack[-1][1].append(_row(request, stack[-1][2]))
    return own


def _path(agent: str | None, parents: dict[str | None, str | None]) -> list[str | None]:
    """From the session's own agent, None, down to this one."""
    path = [agent]
    while path[-1] is not None:
        path.append(parents.get(path[-1]))
    return path[::-1]


def _starts(requests: tuple[TraceRequest, ...]) -> dict[str | None, int]:
    """agent → µs of the earliest request of it or of any agent that it started."""
    starts: dict[str | None, int] = {}
    parents = {request.agent: request.parent for request in requests}
    for request in requests:
        for agent in _path(request.agent, parents):
            starts[agent] = min(starts.get(agent, request.at_us), request.at_us)
    return starts


def _row(request: TraceRequest, base_us: int) -> Row:
    return (
        _times(t=request.at_us - base_us)
        | {"type": "n", "in": request.input_tokens, "out": request.output_tokens}
        | _times(think_time=request.think_us, api_time=request.service_us)
        | {"hash_ids": request.blocks.tolist()}
    )


def _times(**times_us: int | None) -> Row:
    """Seconds; a double tells microseconds apart for centuries."""
    return {name: us / 1_000_000 for name, us in times_us.items() if us is not None}
