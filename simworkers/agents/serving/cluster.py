"""A cluster of replicas behind a router, serving sessions of agents: discrete events, exact and deterministic.

Events of one moment go in this order: ends of steps by replica, then what happens to replicas, then requests by turn.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simworkers.agents.serving.cost import FS_PER_US, StepCost
from simworkers.agents.serving.kv_memory import KvMemory
from simworkers.agents.serving.policies import POLICIES, Ask, Limits
from simworkers.agents.serving.replica import Replica, Schedule
from simworkers.agents.serving.requests import InFlight
from simworkers.agents.serving.run_cache import RunCache
from simworkers.agents.serving.sessions import Sessions
from simworkers.agents.serving.tiers import HostTier, Link, Pool
from simworkers.agents.serving.workload import Workload
from simworkers.rng import Stream

STEP_END, INCIDENT, ARRIVAL = range(3)
FIRST_SAMPLES_APART_US = 1_000_000  # of what replicas hold; twice as far whenever there are too many
MOST_SAMPLES = 240
SPARE_DRAWS = 4096  # for requests that are sent again


@dataclass(frozen=True)
class Incident:
    """What happens to a replica: fail (its KV is lost), drain (it takes nothing new), return (either is over)."""

    at_us: int
    replica: int
    what: str


@dataclass(frozen=True)
class Tiers:
    """Capacities of 0: there is no such tier. Rates are those of one replica."""

    host_blocks: int = 0
    host_bytes_per_s: float = 50e9
    pool_blocks: int = 0
    pool_bytes_per_s: float = 50e9


@dataclass(frozen=True)
class Setup:
    """A cluster and how it is used. `seed` decides what the random policy draws, nothing else."""

    replicas: int
    kv_blocks: int  # of each replica
    cost: StepCost
    policy: str = "sticky_spill"
    limits: Limits = field(default_factory=Limits)
    schedule: Schedule = field(default_factory=Schedule)
    tiers: Tiers = field(default_factory=Tiers)
    sessions_at_once: int = 32
    start_gap_us: int = 0  # between the first sessions
    incidents: tuple[Incident, ...] = ()
    horizon_us: int = 100 * 24 * 3600 * 10**6
    seed: int = 0


@dataclass(frozen=True)
class Sample:
    """What the replicas' KV blocks were, at one moment."""

    at_us: int
    held_blocks: tuple[int, ...]
    cached_blocks: tuple[int, ...]
    host_blocks: tuple[int, ...]
    pool_blocks: int


@dataclass
class Outcome:
    """Every turn's way, in order of the turns; turns that were never sent are missing."""

    requests: list[InFlight]
    refused: list[int]  # turns larger than any cache
    replicas: list[Replica]
    samples: list[Sample]
    end_us: int  # of the last request, or the horizon
    events: int


class Cluster:
    """One simulation. on_finish(finished turns): called after every one. cache_type: of HBM, for comparisons.
    is_sampled: what replicas hold is noted now and then, for a figure."""

    def __init__(
        self,
        workload: Workload,
        setup: Setup,
        on_finish: Callable[[int], None] | None = None,
        cache_type: type[RunCache] = RunCache,
        is_sampled: bool = True,
    ) -> None:
        self.workload, self.setup, self._on_finish, self._cache_type = workload, setup, on_finish, cache_type
        block_bytes = workload.block_size * setup.cost.model.kv_bytes_per_token
        tiers = setup.tiers
        self.pool = Pool(tiers.pool_blocks, block_bytes, workload.run_lengths) if tiers.pool_blocks else None
        self.replicas = [self._build_replica(index, block_bytes) for index in range(setup.replicas)]
        self.policy = POLICIES[setup.policy]
        self.sessions = Sessions(workload, setup.sessions_at_once, setup.start_gap_us * FS_PER_US)
        self.requests: dict[int, InFlight] = {}
        self.refused: list[int] = []
        self.samples: list[Sample] = []
        self._sample_apart = FIRST_SAMPLES_APART_US * FS_PER_US
        self._next_sample_at = 0 if is_sampled else setup.horizon_us * FS_PER_US + 1
        self._draws = Stream(setup.seed, "router").words(len(workload.turns) + SPARE_DRAWS).tolist()
        self._asked = 0
        self._last: dict[int, int] = {}  # session → replica of its last request
        self._waiting: list[InFlight] = []  # while no replica takes requests
        self._events: list[tuple[int, int, int, int]] = []  # (at, kind, replica or turn or incident, version)
        self._finished = 0

    def _build_replica(self, index: int, block_bytes: int) -> Replica:
        workload, setup, tiers = self.workload, self.setup, self.setup.tiers
        host = None
        if tiers.host_blocks:
            host = HostTier(tiers.host_blocks, block_bytes, Link(tiers.host_bytes_per_s))
        cache = self._cache_type(setup.kv_blocks, workload.run_lengths, host.write_back if host else None)
        pool_link = Link(tiers.pool_bytes_per_s) if self.pool else None
        memory = KvMemory(cache, workload.block_size, host, self.pool, pool_link)
        return Replica(index, workload, setup.cost, setup.schedule, memory)

    def play(self) -> Outcome:
        """To the last turn, or the horizon."""
        for number, incident in enumerate(self.setup.incidents):
            heapq.heappush(self._events, (incident.at_us * FS_PER_US, INCIDENT, number, 0))
        self._send(self.sessions.begin())
        horizon, events, at = self.setup.horizon_us * FS_PER_US, 0, 0
        while self._events and not self.sessions.is_over:
            when, kind, number, version = heapq.heappop(self._events)
            if kind == STEP_END and self.replicas[number].version != version:
                continue
            if when > horizon:
                break
            at, events = when, events + 1
            if kind == STEP_END:
                self._end_stretch(self.replicas[number], at)
            elif kind == ARRIVAL:
                self._arrive(number, at)
            else:
                self._happen(self.setup.incidents[number], at)
            if at >= self._next_sample_at:
                self._sample(at)
        if not self.sessions.is_over:  # cut off, or nobody is left who could serve
            at = horizon
            for replica in self.replicas:
                replica.advance(at)
        ordered = [self.requests[turn] for turn in sorted(self.requests)]
        return Outcome(ordered, self.refused, self.replicas, self.samples, at // FS_PER_US, events)

    def _send(self, turns: Sequence[tuple[int, int]]) -> None:
        for at, turn in turns:
            heapq.heappush(self._events, (at, ARRIVAL, turn, 0))

    def _call_again(self, replica: Replica) -> None:
        if replica.next_at is not None:
            heapq.heappush(self._events, (replica.next_at, STEP_END, replica.index, replica.version))

    def _end_stretch(self, replica: Replica, at: int) -> None:
        finished = replica.end_stretch(at)
        self._call_again(replica)
        for turn in sorted([request.turn.number for request in finished]):
            self._over(turn, at)

    def _over(self, turn: int, at: int) -> None:
        self._finished += 1
        self._send(self.sessions.finish(turn, at))
        for session in self.sessions.take_ended():
            last = self._last.pop(session, None)
            if last is not None:
                self.replicas[last].sessions -= 1
        if self._on_finish is not None:
            self._on_finish(self._finished)

    def _arrive(self, number: int, at: int) -> None:
        turn = self.workload.turns[number]
        request = self.requests[number] = InFlight(
            turn, sent_at=at, target=turn.input_tokens, queued_since=at
        )
        self._route(request, at)

    def _route(self, request: InFlight, at: int) -> None:
        open_ones = [replica for replica in self.replicas if replica.is_up and not replica.is_draining]
        if not open_ones:
            self._waiting.append(request)
            return
        for replica in open_ones:
            replica.ask(request.turn, at)
        session = request.turn.session
        ask = Ask(
            number=self._asked,
            session=session,
            input_tokens=request.turn.input_tokens,
            last=self._last.get(session),
            draw=self._draws[self._asked % len(self._draws)],
        )
        self._asked += 1
        chosen = self.replicas[self.policy(ask, open_ones, self.setup.limits).index]
        if not chosen.submit(request, at):
            self.refused.append(request.turn.number)
            del self.requests[request.turn.number]
            self._over(request.turn.number, at)
            return
        self._call_again(chosen)
        if ask.last != chosen.index:
            if ask.last is not None:
                self.replicas[ask.last].sessions -= 1
            chosen.sessions += 1
            self._last[session] = chosen.index

    def _happen(self, incident: Incident, at: int) -> None:
        replica = self.replicas[incident.replica]
        if incident.what == "drain":
            replica.is_draining = True
        elif incident.what == "return":
            replica.is_up, replica.is_draining = True, False
            waiting, self._waiting = self._waiting, []
            for request in waiting:
                self._route(request, at)
        elif replica.is_up:
            replica.advance(at)
            for request in replica.fail(at):
                self._route(request, at)

    def _sample(self, at: int) -> None:
        if len(self.samples) == MOST_SAMPLES:
            self.samples = self.samples[::2]
            self._sample_apart *= 2
        self._next_sample_at = at + self._sample_apart
        for replica in self.replicas:
            replica.advance(at)
        self.samples.append(
            Sample(
                at // FS_PER_US,
                tuple(replica.cache.used_blocks for replica in self.replicas),
                tuple(replica.cache.free.total_blocks for replica in self.replicas),
                tuple(replica.host_blocks for replica in self.replicas),
                self.pool.lru.total_blocks if self.pool else 0,
            )
        )


def simulate_cluster(
    workload: Workload,
    setup: Setup,
    on_finish: Callable[[int], None] | None = None,
    *,
    is_sampled: bool = False,
) -> Outcome:
    """Serve a workload."""
    return Cluster(workload, setup, on_finish, is_sampled=is_sampled).play()
