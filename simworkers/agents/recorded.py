"""Which recorded traces a run can play, told by counts: those of a summary before it is queued, the trace's own once it
is read. Pydantic alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from simworkers.agents.params import AgentParams
from simworkers.agents.work import MAX_WORK_S, seconds_of
from simworkers.jobs import Fault
from simworkers.trace_summary import SessionSize, TraceSummary, few_of

MOST_REQUESTS = 30_000


@dataclass(frozen=True)
class Counts:
    """Of what a run plays of a trace. runs: of blocks, over all prompts; 0 until they are known."""

    has_sessions: bool
    sessions: int  # each row is one where rows have none
    requests: int
    input_tokens: int
    output_tokens: int
    runs: int = 0


def fault_of_summary(params: AgentParams, summary: TraceSummary) -> Fault | None:
    """What is known before the trace is read; nothing of fewer sessions than it has, where they were not counted."""
    if not summary.has_sessions or params.sessions >= summary.sessions:
        return fault_of_sizes(summary.block_sizes) or fault_of(params, counts_of_all(summary))
    played = summary.first_sessions[: params.sessions]
    if len(played) < params.sessions:
        return None
    return fault_of_sizes({one.block_size for one in played}) or fault_of(params, counts_of(played))


def counts_of_all(summary: TraceSummary) -> Counts:
    return Counts(
        has_sessions=summary.has_sessions,
        sessions=summary.sessions if summary.has_sessions else summary.requests,
        requests=summary.requests,
        input_tokens=summary.input_tokens,
        output_tokens=summary.output_tokens,
    )


def counts_of(sessions: Sequence[SessionSize]) -> Counts:
    return Counts(
        has_sessions=True,
        sessions=len(sessions),
        requests=sum(one.requests for one in sessions),
        input_tokens=sum(one.input_tokens for one in sessions),
        output_tokens=sum(one.output_tokens for one in sessions),
    )


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
    values = params.model_dump() | {"sessions": played.sessions}
    work_s = seconds_of(played.requests, played.input_tokens, played.output_tokens, values, runs=played.runs)
    if work_s > MAX_WORK_S:
        parted = f" and {played.runs:,} runs of blocks" if played.runs else ""
        return blamed, (
            f"with its {played.requests:,} requests{parted} this run would take about {work_s:.0f} s of one core, "
            f"at most {MAX_WORK_S}"
        )
    return None
