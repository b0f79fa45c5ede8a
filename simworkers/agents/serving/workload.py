"""A trace as work for a cluster: turns that wait for one another, and their contexts as runs of blocks."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from simworkers.agents.traffic.flags import HIT_RATE, Flags
from simworkers.agents.traffic.runs import Chain, Ids, RunBook, common_length, split_into_runs
from simworkers.agents.traffic.traces import Session, Trace, TraceRequest
from simworkers.trace_summary import few_of

MOST_US = 2**62
OPENING = -1  # in place of a request: before the first one


@dataclass(frozen=True)
class Turn:
    """One request. Its blocks are those with ids that the flags count; at most `hit_cap` of them hit."""

    number: int  # over the whole workload, stream after stream
    session: int
    stream: int  # over the whole workload
    index: int  # within its stream
    input_tokens: int
    output_tokens: int
    chain: Chain  # of the prompt
    kept: tuple[int, ...]  # runs that its answer leaves behind, where the agent's next prompt continues it
    blocks: int  # of the prompt, repeated ids included
    distinct_blocks: int  # different ids among them
    hit_cap: int  # blocks
    think_us: int  # from the end of all that it waits for to its sending


@dataclass(frozen=True)
class Workload:
    """Turns of all sessions. A turn is sent after the one before it in its stream and after all streams that this one
    has started, which run side by side; the first of a stream after those that open it."""

    block_size: int
    flags: Flags
    run_lengths: list[int]  # blocks
    turns: list[Turn]
    streams: list[tuple[int, int]]  # (first turn, end) of each: one agent's turns
    begins: list[list[int]]  # of each session: streams that its start starts
    starts: dict[int, list[int]]  # turn → streams that its end starts, besides its own next turn
    opens: dict[int, list[int]]  # stream → streams that it starts before its first turn
    arrivals_us: list[int] | None = (
        None  # of sessions that come at times of their own; None: one after the other
    )

    @property
    def input_tokens(self) -> int:
        return sum(turn.input_tokens for turn in self.turns)

    @property
    def block_references(self) -> int:
        return sum(turn.blocks for turn in self.turns)


@dataclass
class _Agent:
    """Requests of one agent, before they are turns."""

    session: int
    space: int
    parent: str | None
    requests: list[TraceRequest] = field(default_factory=list)
    started_after: tuple[int, int] | None = (
        None  # (agent, index of its request or OPENING); None: with the session
    )
    blocks: list[Ids] = field(default_factory=list)

    def end_us(self, index: int) -> int:
        request = self.requests[index]
        return request.at_us + (request.service_us or 0)


def build_workload(
    trace: Trace, flags: Flags = HIT_RATE, think_percent: int = 100, think_at_most_us: int = 0
) -> Workload:
    """think_percent: of the trace's think times, which are cut at think_at_most_us unless that is 0.

    ValueError where sessions differ in block size: a cache has one."""
    sizes = {session.block_size for session in trace.sessions}
    if len(sizes) != 1:
        raise ValueError(f"trace: one cache cannot hold blocks of {few_of(sizes)} tokens")
    (block_size,) = sizes
    agents: list[_Agent] = []
    for number, session in enumerate(trace.sessions):
        agents += _agents_of(session, number, len(agents))
    for agent in agents:
        agent.blocks = [_counted(request, block_size, flags) for request in agent.requests]
    outputs = [_output_stops(agent, block_size, flags) for agent in agents]
    chains, kept, lengths = _as_runs(agents, outputs, block_size)
    think_us = _think_us(agents)
    turns: list[Turn] = []
    streams = []
    for number, agent in enumerate(agents):
        streams.append((len(turns), len(turns) + len(agent.requests)))
        for index, request in enumerate(agent.requests):
            chain, blocks = chains[number][index], len(agent.blocks[index])
            turns.append(
                Turn(
                    number=len(turns),
                    session=agent.session,
                    stream=number,
                    index=index,
                    input_tokens=request.input_tokens,
                    output_tokens=request.output_tokens,
                    chain=chain,
                    kept=kept[number][index],
                    blocks=blocks,
                    distinct_blocks=sum(lengths[run] for run in chain.runs),
                    hit_cap=min(_most_found(request, block_size, flags), blocks),
                    think_us=min(think_us[number][index] * think_percent // 100, think_at_most_us or MOST_US),
                )
            )
    arrivals_us = None if trace.has_sessions else [session.start_us for session in trace.sessions]
    return Workload(block_size, flags, lengths, turns, streams, *_starts(agents, streams), arrivals_us)


def each_row_a_session(trace: Trace) -> Trace:
    """Rows of requests that name no session, each as a session of one turn that comes as long after the first as it was
    recorded. Block ids stay common to all of them."""
    rows = [(session, request) for session in trace.sessions for request in session.requests]
    first_us = min(request.at_us for _, request in rows)
    sessions = [
        replace(
            session, id=f"row {number}", number=number, requests=(request,), start_us=request.at_us - first_us
        )
        for number, (session, request) in enumerate(rows)
    ]
    return replace(trace, sessions=sessions)


def requests_in_order(trace: Trace) -> list[tuple[Session, TraceRequest]]:
    """The recorded request behind each turn of this trace's workload."""
    return [
        (session, request)
        for session in trace.sessions
        for agent in _agents_of(session, 0, 0)
        for request in agent.requests
    ]


def one_after_another(workload: Workload, trace: Trace) -> Workload:
    """The same turns in the order in which they were recorded, each sent when the one before has ended: a replay."""
    at = {id(request): place for session in trace.sessions for place, request in enumerate(session.requests)}
    keys = [(request.at_us, session.number, at[id(request)]) for session, request in requests_in_order(trace)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    turns = [
        replace(workload.turns[old], number=new, stream=0, session=0, index=new, think_us=0)
        for new, old in enumerate(order)
    ]
    return replace(
        workload, turns=turns, streams=[(0, len(turns))], begins=[[0]], starts={}, opens={}, arrivals_us=None
    )


def _agents_of(session: Session, number: int, first: int) -> list[_Agent]:
    """The agents of a session in order of the file, each with its requests by time. first: number of the first of them
    over all sessions."""
    agents: list[_Agent] = []
    by_name: dict[str | None, int] = {}
    before: list[int] = []  # requests that the session's own agent had sent when each agent came
    for request in sorted(session.requests, key=lambda request: request.place):
        if request.agent not in by_name:
            before.append(len(agents[by_name[None]].requests) if None in by_name else 0)
            parent = by_name.get(request.parent) if request.agent is not None else None
            after = (first + parent, len(agents[parent].requests) - 1) if parent is not None else None
            by_name[request.agent] = len(agents)
            agents.append(_Agent(number, session.space, request.parent, started_after=after))
        agents[by_name[request.agent]].requests.append(request)
    for name, place in by_name.items():
        agent = agents[place]
        if name is not None and agent.started_after is None:
            agent.started_after = _opened(agent, before[place], by_name, first)
    moved = [_sort_by_time(agent) for agent in agents]
    for agent in agents:
        if agent.started_after is not None and agent.started_after[1] != OPENING:
            starter, index = agent.started_after
            agent.started_after = starter, moved[starter - first][index]
    return agents


def _sort_by_time(agent: _Agent) -> list[int]:
    """[n] where the requests, which stood in order of the file, are now."""
    stood = agent.requests
    order = sorted(
        range(len(stood)), key=lambda index: stood[index].at_us
    )  # stable: equal times keep their place
    agent.requests = [stood[index] for index in order]
    moved = [0] * len(order)
    for now, before in enumerate(order):
        moved[before] = now
    return moved


def _opened(agent: _Agent, before: int, by_name: dict[str | None, int], first: int) -> tuple[int, int] | None:
    """What starts an agent that stands before its parent's first request: its parent; where that never sends one, the
    session's own."""
    if agent.parent in by_name:
        return first + by_name[agent.parent], OPENING
    return (first + by_name[None], before - 1) if None in by_name else None


def _starts(
    agents: Sequence[_Agent], streams: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], dict[int, list[int]], dict[int, list[int]]]:
    """What starts each stream: (its session, a turn, a stream that it opens), as a workload has them."""
    begins: list[list[int]] = [[] for _ in range(max(agent.session for agent in agents) + 1)]
    starts, opens = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
    for number, agent in enumerate(agents):
        if agent.started_after is None:
            begins[agent.session].append(number)
            continue
        parent, index = agent.started_after
        if index == OPENING:
            opens[parent].append(number)
        else:
            starts[streams[parent][0] + index].append(number)
    return begins, dict(starts), dict(opens)


def _most_found(request: TraceRequest, block_size: int, flags: Flags) -> int:
    """Blocks of a prompt that can hit."""
    if flags.full_hit_recompute:
        return max(request.input_tokens - 1, 0) // block_size
    return request.input_tokens


def _counted(request: TraceRequest, block_size: int, flags: Flags) -> Ids:
    whole = request.input_tokens // block_size
    return request.blocks if flags.partial_blocks else request.blocks[:whole]


def _output_stops(agent: _Agent, block_size: int, flags: Flags) -> list[int]:
    """For each request, up to which block of the agent's next prompt its prompt and answer have left KV; 0: nowhere."""
    stops = [0] * len(agent.requests)
    if not flags.cache_outputs:
        return stops
    for index, (request, following) in enumerate(pairwise(agent.requests)):
        whole = request.input_tokens // block_size
        filled = (request.input_tokens + request.output_tokens - 1) // block_size
        stop = min(filled, following.input_tokens // block_size)
        continues = common_length(request.blocks[:whole], following.blocks) == whole
        if stop > whole and continues:
            stops[index] = stop
    return stops


def _as_runs(
    agents: Sequence[_Agent], outputs: Sequence[Sequence[int]], block_size: int
) -> tuple[list[list[Chain]], list[list[tuple[int, ...]]], list[int]]:
    """(chains, runs that answers leave behind, run lengths), agents that share block ids together."""
    book = RunBook()
    chains: list[list[Chain]] = [[] for _ in agents]
    kept: list[list[tuple[int, ...]]] = [[] for _ in agents]
    spaces: defaultdict[int, list[int]] = defaultdict(list)
    for number, agent in enumerate(agents):
        spaces[agent.space].append(number)
    for members in spaces.values():
        ends = [
            (stream, index + 1, stop)
            for stream, number in enumerate(members)
            for index, stop in enumerate(outputs[number])
            if stop
        ]
        split = split_into_runs([agents[number].blocks for number in members], ends, book)
        for number, found in zip(members, split, strict=True):
            chains[number] = found
            prompts = agents[number].blocks
            kept[number] = [
                # A partly filled block may keep its id once it is full: the prompt has it already.
                _between(found[index + 1], common_length(*prompts[index : index + 2]), stop, book)
                if stop
                else ()
                for index, stop in enumerate(outputs[number])
            ]
    return chains, kept, book.lengths


def _between(chain: Chain, start: int, stop: int, book: RunBook) -> tuple[int, ...]:
    """Runs of a prompt between two places of it, both ends of runs."""
    first, end = chain.distinct_before(start), chain.distinct_before(stop)
    found, place = [], 0
    for run in chain.runs:
        if first <= place < end:
            found.append(run)
        place += book.lengths[run]
    return tuple(found)


def _think_us(agents: Sequence[_Agent]) -> list[list[int]]:
    """Before each request of each agent: what the trace's times leave between the end of all that it waited for and its
    sending, at most the think time that the trace names."""
    children_end_us: defaultdict[tuple[int, int], int] = defaultdict(int)
    for agent in agents:
        if agent.started_after is not None:
            end_us = max(agent.end_us(index) for index in range(len(agent.requests)))
            children_end_us[agent.started_after] = max(children_end_us[agent.started_after], end_us)
    began_us = _sessions_began_us(agents)
    found = []
    for number, agent in enumerate(agents):
        waited_us = max(_started_us(agents, number, began_us), children_end_us[number, OPENING])
        think_us = [max(agent.requests[0].at_us - waited_us, 0)]
        for index, request in enumerate(agent.requests[1:]):
            waited_us = max(agent.end_us(index), children_end_us[number, index])
            gap_us = max(request.at_us - waited_us, 0)
            think_us.append(gap_us if request.think_us is None else min(gap_us, request.think_us))
        found.append(think_us)
    return found


def _sessions_began_us(agents: Sequence[_Agent]) -> dict[int, int]:
    """With the earliest request of the agent that stands first."""
    began_us: dict[int, int] = {}
    for agent in agents:
        began_us.setdefault(agent.session, agent.requests[0].at_us)
    return began_us


def _started_us(agents: Sequence[_Agent], number: int, began_us: dict[int, int]) -> int:
    """When what an agent starts with had ended, as recorded."""
    after = agents[number].started_after
    if after is None:
        return began_us[agents[number].session]
    parent, index = after
    return _started_us(agents, parent, began_us) if index == OPENING else agents[parent].end_us(index)
