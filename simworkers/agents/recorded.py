"""Which recorded traces a run can play, told by counts: those of a summary before it is queued, the trace's own once it
is read. Pydantic alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from simworkers.agents.params import AgentParams
from simworkers.agents.work import MAX_WORK_S, Crowd, seconds_of
from simworkers.jobs import Fault
from simworkers.trace_summary import SessionSize, TraceSummary, few_of

MOST_REQUESTS = 30_000


@dataclass(frozen=True)
class Counts:
    """Of what a run plays of a trace. runs: of blocks, over all prompts; 0 until they are known.

    open_at_once: [sessions] requests of each that are; empty where all may be. doublings: as SessionSize has them;
    None: at most. read_s: to read the file, where that is yet to be done."""

    has_sessions: bool
    sessions: int  # each row is one where rows have none
    requests: int
    input_tokens: int
    output_tokens: int
    runs: int = 0
    open_at_once: tuple[float, ...] = ()
    doublings: float | None = None
    read_s: float = 0.0


def fault_of_summary(params: AgentParams, summary: TraceSummary) -> Fault | None:
    """What is known before the trace is read; nothing of fewer sessions than it has, where they were not counted."""
    if not summary.has_sessions or params.sessions >= summary.sessions:
        return fault_of_sizes(summary.block_sizes) or fault_of(params, counts_of_all(summary))
    played = summary.first_sessions[: params.sessions]
    if len(played) < params.sessions:
        return None
    counts = replace(counts_of(played), read_s=summary.read_s)
    return fault_of_sizes({one.block_size for one in played}) or fault_of(params, counts)


def counts_of_all(summary: TraceSummary) -> Counts:
    if summary.has_sessions and len(summary.first_sessions) == summary.sessions:
        return replace(counts_of(summary.first_sessions), read_s=summary.read_s)
    return Counts(
        has_sessions=summary.has_sessions,
        sessions=summary.sessions if summary.has_sessions else summary.requests,
        requests=summary.requests,
        input_tokens=summary.input_tokens,
        output_tokens=summary.output_tokens,
        read_s=summary.read_s,
    )


def counts_of(sessions: Sequence[SessionSize]) -> Counts:
    return Counts(
        has_sessions=True,
        sessions=len(sessions),
        requests=sum(one.requests for one in sessions),
        input_tokens=sum(one.input_tokens for one in sessions),
        output_tokens=sum(one.output_tokens for one in sessions),
        open_at_once=tuple(one.open_at_once for one in sessions),
        doublings=sum(one.doublings for one in sessions),
    )


def expected_s_of(params: AgentParams, played: Counts) -> float:
    """Of a run that plays it."""
    searched = params.search_load or params.scored_as != "none"  # any load, up to all of them
    most = sorted(played.open_at_once, reverse=True)[: None if searched else params.sessions_at_once]
    crowd = Crowd(sum(most) or played.requests, played.doublings)
    values = params.model_dump() | {"sessions": played.sessions, "has_sessions": played.has_sessions}
    tokens = played.input_tokens, played.output_tokens
    return played.read_s + seconds_of(played.requests, *tokens, values, runs=played.runs, crowd=crowd)


def fault_of_sizes(block_sizes: Collection[int]) -> Fault | None:
    if len(block_sizes) < 2:
        return None
    return "trace", f"has blocks of {few_of(block_sizes)} tokens, which one cache cannot hold"


def fault_of(params: AgentParams, played: Counts) -> Fault | None:
    """A search that rows without sessions do not allow, too many requests, or a run that would take too long."""
    if not played.has_sessions and (params.search_load or params.scored_as == "throughput"):
        name = "search_load" if params.search_load else "scored_as"
        return name, "rows without sessions come at their own times: there is no load to search"
    blamed = "sessions" if played.has_sessions else "trace"  # what may be cut down
    if played.requests > MOST_REQUESTS:
        return blamed, f"{played.requests:,} requests, at most {MOST_REQUESTS:,} are played"
    work_s = expected_s_of(params, played)
    if work_s > MAX_WORK_S:
        parted = f" and {played.runs:,} runs of blocks" if played.runs else ""
        return blamed, (
            f"with its {played.requests:,} requests{parted} this run would take about {work_s:.0f} s of one core, "
            f"at most {MAX_WORK_S}"
        )
    return None
