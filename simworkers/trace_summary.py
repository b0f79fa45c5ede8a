"""What is told of a recorded trace before anybody runs it: counts, and what was noticed in its lines."""

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

if TYPE_CHECKING:  # a web process reads summaries, and loads no numpy for it
    from simworkers.agents.traffic.trace_notes import Note
    from simworkers.agents.traffic.traces import Session, Trace, TraceRequest

NOTES_SHOWN = 50
SIZES_KEPT = 256  # of sessions: as many as a run may ask for
MESSAGE_CHARS = 300
BLOCK_SIZES_KEPT = 20  # a file may have one a line
BLOCK_SIZES_NAMED = 3


class NoteSummary(BaseModel):
    """One line that was refused, or repaired and used."""

    line: int = Field(ge=1, description="From 1.")
    field: str = Field(max_length=200)
    message: str = Field(max_length=MESSAGE_CHARS)
    is_refused: bool = Field(description="False: repaired, and used.")


class SessionSize(BaseModel):
    """What one session holds."""

    requests: int = Field(ge=1)
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    block_size: int = Field(ge=1)
    open_at_once: float = Field(
        1.0, ge=0, description="Its requests that are: the mean over its agents' turns."
    )
    doublings: float = Field(
        0.0, ge=0, description="How often answers double what each request holds for itself alone."
    )


class TraceSummary(BaseModel):
    """Counts over all sessions of a trace."""

    sessions: int = Field(ge=0, description="1 where the rows have no sessions.")
    has_sessions: bool = Field(True, description="False: the rows have none.")
    requests: int = Field(ge=0)
    subagent_requests: int = Field(ge=0, description="Of these, sent by subagents.")
    block_references: int = Field(ge=0, description="Ids of the prompts' blocks, each time one is named.")
    block_sizes: list[int] = Field(description="Tokens in a block: the smallest 20; sorted.")
    block_sizes_left_out: int = Field(0, ge=0, description="How many more there are.")
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    longest_session_s: float = Field(ge=0, description="From its first request to its last.")
    subagent_times: str = Field(description="From where subagents' times count: marker or session.")
    lines_refused: int = Field(ge=0)
    repairs: int = Field(ge=0, description="A line may have several.")
    notes: list[NoteSummary] = Field(max_length=NOTES_SHOWN, description="The first; all are counted.")
    read_s: float = Field(0.0, ge=0, description="How long the check took to read it.")
    first_sessions: list[SessionSize] = Field(
        default=[],
        max_length=SIZES_KEPT,
        description="Those that a run of fewer sessions plays; empty where it was checked before they were kept.",
    )


def summarise(trace: "Trace", read_s: float = 0.0) -> TraceSummary:
    """What a trace holds, and what was noticed while it was read, which took so long."""
    requests = [request for session in trace.sessions for request in session.requests]
    block_sizes = sorted({session.block_size for session in trace.sessions})
    return TraceSummary(
        sessions=len(trace.sessions),
        has_sessions=trace.has_sessions,
        requests=len(requests),
        subagent_requests=sum(request.agent is not None for request in requests),
        block_references=sum(len(request.blocks) for request in requests),
        block_sizes=block_sizes[:BLOCK_SIZES_KEPT],
        block_sizes_left_out=len(block_sizes[BLOCK_SIZES_KEPT:]),
        input_tokens=sum(request.input_tokens for request in requests),
        output_tokens=sum(request.output_tokens for request in requests),
        longest_session_s=max(_span_us(session) for session in trace.sessions) / 1e6,
        subagent_times=trace.subagent_times,
        lines_refused=trace.lines_refused,
        repairs=trace.repairs,
        notes=[_summary_of(note) for note in trace.notes[:NOTES_SHOWN]],
        read_s=read_s,
        first_sessions=[size_of(session) for session in trace.sessions[:SIZES_KEPT]],
    )


def few_of(block_sizes: Collection[int]) -> str:
    """The smallest: "16", "16 and 64", "2, 3, 4 and more"."""
    names = [f"{size:,}" for size in sorted(block_sizes)[:BLOCK_SIZES_NAMED]]
    names += ["more"] * (len(block_sizes) > len(names))
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def size_of(session: "Session") -> SessionSize:
    by_subagents = sum(request.agent is not None for request in session.requests)
    return SessionSize(
        requests=len(session.requests),
        input_tokens=sum(request.input_tokens for request in session.requests),
        output_tokens=sum(request.output_tokens for request in session.requests),
        block_size=session.block_size,
        open_at_once=1 + by_subagents / len(session.requests) * (session.side_by_side - 1),
        doublings=sum(_doublings(session, request) for request in session.requests),
    )


def _doublings(session: "Session", request: "TraceRequest") -> float:
    """Other requests that are open may hold the prompt too where sessions share ids, or a subagent sent it."""
    is_shared = session.space < 0 or request.agent is not None
    return math.log2(1 + request.output_tokens / (1 if is_shared else max(request.input_tokens, 1)))


def _span_us(session: "Session") -> int:
    times = [request.at_us for request in session.requests]
    return max(times) - min(times)


def _summary_of(note: "Note") -> NoteSummary:
    """Cut to size, and in characters that any database stores: a message may quote the file."""
    return NoteSummary(
        line=note.line,
        field=_plain(note.field)[:200],
        message=_plain(note.message)[:MESSAGE_CHARS],
        is_refused=note.is_refused,
    )


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)
