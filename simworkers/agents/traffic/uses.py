"""What each request of a trace looks for in a cache and leaves there, as the flags say."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simworkers.agents.traffic.flags import Flags
from simworkers.agents.traffic.runs import Ids, common_length
from simworkers.agents.traffic.traces import Session, Trace, TraceRequest


@dataclass(frozen=True, slots=True)
class Use:
    """One request. kept: [n] the ids that it leaves; the first `asked` of them are those that it looks for."""

    session: Session
    request: TraceRequest
    kept: Ids
    asked: int
    cap: int  # most blocks that may hit

    def needs_more_than(self, capacity: int) -> bool:
        """Whether the prompt has more different blocks than that."""
        return self.asked > capacity and len(set(self.kept[: self.asked].tolist())) > capacity


def uses_in_order(trace: Trace, flags: Flags) -> Iterator[Use]:
    """Every request by (time, session number, position), all sessions starting at time 0."""
    following = (
        {session.number: _following(session) for session in trace.sessions} if flags.cache_outputs else {}
    )
    for session, position in trace.positions():
        request, size = session.requests[position], session.block_size
        asked = request.blocks if flags.partial_blocks else request.blocks[: request.input_tokens // size]
        cap = max(request.input_tokens - 1, 0) // size if flags.full_hit_recompute else len(asked)
        kept = (
            _with_outputs(request, asked, following[session.number][position], size) if following else asked
        )
        yield Use(session, request, kept, len(asked), min(cap, len(asked)))


def _following(session: Session) -> list[TraceRequest | None]:
    """For each request by position the same agent's next one by time, as a cluster plays them."""
    following: list[TraceRequest | None] = [None] * len(session.requests)
    last: dict[str | None, int] = {}
    for position, request in enumerate(session.requests):
        if request.agent in last:
            following[last[request.agent]] = request
        last[request.agent] = position
    return following


def _with_outputs(request: TraceRequest, asked: Ids, following: TraceRequest | None, size: int) -> Ids:
    """The prompt's blocks, and behind them those that its answer fills: whole ones, named by the prompt that continues
    it. The last output token has no KV."""
    if following is None:
        return asked
    whole = request.input_tokens // size
    filled = (request.input_tokens + request.output_tokens - 1) // size
    stop = min(filled, following.input_tokens // size)
    if stop <= whole or common_length(request.blocks[:whole], following.blocks) < whole:
        return asked
    if len(asked) == whole:
        return following.blocks[:stop]  # a view, no copy
    return np.concatenate([asked, following.blocks[whole:stop]])
