"""A log of requests as a router writes one, and a replay of it block by block: what would a next request find?

The replay knows the log alone. It takes requests in the order of their ends, which is when blocks become free; a log of
requests that overlap much cannot be replayed to the token.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simworkers.agents.serving.cost import FS_PER_S
from simworkers.agents.serving.requests import InFlight
from simworkers.agents.serving.workload import Workload
from simworkers.agents.traffic.runs import Chain

BLOCK_TOKENS = 64  # of generated sessions
RUNNING = -1.0  # done_s of a request that has not ended
LOG_HELP = (
    "One row for each request that was sent before the watched one. agent: 0 is the session's own, others are its "
    "subagents, between two turns of the own one. repeats_tokens: leading tokens that the same agent's last prompt had "
    "too; in an agent's first turn: that another subagent of the session had. done_s: when its answer ended, −1 if it "
    "had not when the watched request was sent."
)

Row = Mapping[str, Any]
Name = tuple[int, int, int, int]  # (session, agent, chain, place)


@dataclass(frozen=True)
class Replayed:
    """What the log says of the watched request."""

    replica: int
    cached_tokens: int
    last_sent_tokens: int  # of the agent's last prompt and answer, as far as whole blocks go


def describe_request(workload: Workload, request: InFlight, now_fs: int) -> dict[str, Any]:
    """A row of the log. now_fs: when the log is written."""
    turn = request.turn
    done_fs = request.finished_at
    return {
        "sent_s": round(request.sent_at / FS_PER_S, 3),
        "done_s": round(done_fs / FS_PER_S, 3) if done_fs is not None and done_fs <= now_fs else RUNNING,
        "session": turn.session + 1,
        "agent": turn.stream - workload.begins[turn.session][0],
        "turn": turn.index + 1,
        "replica": request.replica,
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "repeats_tokens": repeated_blocks(workload, turn.number) * workload.block_size,
    }


def repeated_blocks(workload: Workload, number: int) -> int:
    """Leading blocks that the agent's prompt before had, or another subagent's where there is none."""
    turn = workload.turns[number]
    if turn.index:
        return _common(turn.chain, workload.turns[number - 1].chain, workload)
    others = [
        workload.turns[first].chain
        for first, _ in workload.streams[: turn.stream]
        if workload.turns[first].session == turn.session
    ]
    return max((_common(turn.chain, other, workload) for other in others), default=0)


def _common(one: Chain, other: Chain, workload: Workload) -> int:
    blocks = 0
    for run, also in zip(one.runs, other.runs, strict=False):
        if run != also:
            break
        blocks += workload.run_lengths[run]
    return blocks


@dataclass
class _Cache:
    """Blocks of one replica, the one unused longest first; what they push out goes to host memory, if there is some."""

    blocks: int
    has_host: bool
    order: OrderedDict[Name, None] = field(default_factory=OrderedDict)
    host: set[Name] = field(default_factory=set)
    served: int = 0

    def find(self, names: Sequence[Name]) -> int:
        """Leading blocks that are in HBM or host memory."""
        gone = (place for place, name in enumerate(names) if name not in self.order and name not in self.host)
        return next(gone, len(names))

    def serve(self, prompt: Sequence[Name], kept: Sequence[Name], nameless: int) -> None:
        """A request comes, takes its room, and ends: its head will stay longest."""
        for name in prompt:
            self.order.pop(name, None)
            self.host.discard(name)
        room = self.blocks - len(prompt) - len(kept) - nameless
        while len(self.order) > max(room, 0):
            gone, _ = self.order.popitem(last=False)
            if self.has_host:
                self.host.add(gone)
        self.served += 1
        self.order |= {(-1, -1, self.served, place): None for place in range(nameless)}
        for name in reversed([*prompt, *kept]):
            self.order[name] = None


class _Names:
    """Which block of which chain a prompt consists of, agent by agent. A compaction begins another chain."""

    def __init__(self) -> None:
        self.chains: dict[tuple[int, int], list[Name]] = {}
        self.begun = 0

    def read(self, row: Row) -> list[Name]:
        agent = row["session"], row["agent"]
        before = self.chains.get(agent) or self._sibling(*agent)
        repeats = row["repeats_tokens"] // BLOCK_TOKENS
        if agent not in self.chains or repeats < len(before):
            self.begun += 1
        chain = before[:repeats]
        wanted = row["input_tokens"] // BLOCK_TOKENS
        chain += [(*agent, self.begun, place) for place in range(len(chain), wanted)]
        self.chains[agent] = chain
        return chain

    def _sibling(self, session: int, agent: int) -> list[Name]:
        """The chain of the session's last subagent before this one."""
        others = [key for key in self.chains if key[0] == session and 0 < key[1] != agent]
        return self.chains[max(others)] if others and agent else []


def replay(visible: Row) -> Replayed:
    """What the watched request of an instance finds, as far as its log tells."""
    head, *table = visible["log"]
    log = [dict(zip(head, row, strict=True)) for row in table]
    watched = visible["watched"]
    prompts = _prompts([*log, watched])
    caches = defaultdict[int, _Cache](
        lambda: _Cache(visible["kv_blocks_of_a_replica"], bool(visible["host_gb"]))
    )
    order = sorted(
        range(len(log)), key=lambda place: log[place]["done_s"] if log[place]["done_s"] >= 0 else 1e18
    )
    for place in order:
        row = log[place]
        kept = _kept(row, prompts[place], prompts[_next_of(log, watched, place)])
        used = -(-(row["input_tokens"] + row["output_tokens"] - 1) // BLOCK_TOKENS)
        caches[row["replica"]].serve(prompts[place], kept, max(used - len(prompts[place]) - len(kept), 0))
    own = [row for row in log if (row["session"], row["agent"]) == (watched["session"], watched["agent"])]
    replica = _choose(visible, log, watched)
    most = (watched["input_tokens"] - 1) // BLOCK_TOKENS
    found = caches[replica].find(prompts[-1][:most])
    answered = (own[-1]["input_tokens"] + own[-1]["output_tokens"] - 1) // BLOCK_TOKENS
    return Replayed(replica, found * BLOCK_TOKENS, min(answered, most) * BLOCK_TOKENS)


def _prompts(rows: Sequence[Row]) -> list[list[Name]]:
    names = _Names()
    return [names.read(row) for row in rows]


def _next_of(log: Sequence[Row], watched: Row, place: int) -> int:
    """Where the same agent's next request stands; place itself if it has sent none."""
    agent = log[place]["session"], log[place]["agent"]
    later = [*log[place + 1 :], watched]
    return next(
        (place + 1 + n for n, row in enumerate(later) if (row["session"], row["agent"]) == agent), place
    )


def _kept(row: Row, prompt: Sequence[Name], following: Sequence[Name]) -> list[Name]:
    """Blocks of the answer, where the agent goes on from it."""
    if following[: len(prompt)] != prompt:
        return []
    filled = (row["input_tokens"] + row["output_tokens"] - 1) // BLOCK_TOKENS
    return list(following[len(prompt) : filled])


def _choose(visible: Row, log: Sequence[Row], watched: Row) -> int:
    """The replica that the policy gives to the watched request."""
    replicas = range(visible["replicas"])
    if visible["policy"] == "round_robin":
        return len(log) % len(replicas)
    if visible["policy"] == "least_queue":
        loads = [sum(row["replica"] == one and row["done_s"] < 0 for row in log) for one in replicas]
        return loads.index(min(loads))
    return int([row for row in log if row["session"] == watched["session"]][-1]["replica"])
