"""The load that a lab's default trace gives to a task, where its author has chosen one."""

from collections import Counter
from dataclasses import dataclass, replace

from simworkers import inputs
from simworkers.agents.params import AgentParams
from simworkers.agents.recorded import counts_of, fault_of
from simworkers.agents.room import kv_room_bytes
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.serving.workload import build_workload
from simworkers.agents.traffic.traces import BadTrace, Trace, read_trace
from simworkers.agents.work import seconds_of
from simworkers.trace_summary import size_of

MOST_SESSIONS, LEAST_SESSIONS = 24, 8
# By the estimate, of a run that searches nothing: an instance takes some hundred such simulations to draw.
MOST_S = 1.0


@dataclass(frozen=True)
class RecordedLoad:
    """trace: its hash. sessions: as many of the first as may be played. longest_tokens: most that one request of theirs
    holds, prompt and answer, in whole blocks."""

    trace: str
    sessions: int
    longest_tokens: int

    def fits(self, model: str, gpu: str, gpus: int) -> bool:
        """Whether a replica of so many GPUs holds the longest request beside the weights."""
        try:
            room_bytes = kv_room_bytes(model, gpu, gpus, 1)
        except ValueError:
            return False
        return self.longest_tokens * MODELS[model].kv_bytes_per_token <= room_bytes


def default_load() -> RecordedLoad | None:
    """None where no trace was chosen; one that cannot be read, or whose rows have no sessions: these come at their
    recorded times, and there is no load to search; or one that is too large to be played over and over."""
    digest = inputs.default_digest()
    if digest is None:
        return None
    with inputs.open_input(digest) as file:
        try:
            trace = read_trace(file)
        except BadTrace:
            return None
    sessions = _playable(trace) if trace.has_sessions else 0
    if sessions < LEAST_SESSIONS:
        return None
    held = (
        -(-(row.input_tokens + row.output_tokens) // session.block_size) * session.block_size
        for session in trace.sessions[:sessions]
        for row in session.requests
    )
    return RecordedLoad(digest, sessions, max(held))


def _playable(trace: Trace) -> int:
    """How many of the first sessions can be played together, and soon enough."""
    first = trace.sessions[:MOST_SESSIONS]
    alike = next((n for n, one in enumerate(first) if one.block_size != first[0].block_size), len(first))
    first, sizes = first[:alike], [size_of(session) for session in first[:alike]]
    runs = Counter[int]()
    for turn in build_workload(replace(trace, sessions=first)).turns:
        runs[turn.session] += len(turn.chain.runs)
    plain = AgentParams(replicas=16, compare_policies=False)  # the most work without a pipeline
    searched = plain.model_copy(update={"search_load": True, "scored_as": "throughput"})

    def is_playable(count: int) -> bool:
        counts = replace(counts_of(sizes[:count]), runs=sum(runs[number] for number in range(count)))
        tokens = counts.input_tokens, counts.output_tokens
        taken_s = seconds_of(counts.requests, *tokens, plain.model_dump(), runs=counts.runs)
        return taken_s <= MOST_S and fault_of(searched, counts) is None

    return max((count for count in range(1, alike + 1) if is_playable(count)), default=0)
