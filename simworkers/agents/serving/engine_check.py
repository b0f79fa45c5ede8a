"""The simulator's replicas beside real ones: one trace, the same router, and torch engines that compute every token.

A block id becomes a block of token ids. An answer is whatever the engine says, and stands in the prompt that continues
it, so that KV of answers is found again or not as it would be. One request at a time on each replica: then the engine
and the simulator share every rule, and each turn must agree in all that is compared.

One case is known to differ. A prompt of whole blocks that are all cached has its last block computed again. The engine
computes it into a block of its own and has it twice for a while, where the definition of the hit rate knows it once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from simworkers.agents.serving.cluster import Cluster, Setup, Tiers
from simworkers.agents.serving.cost import Batch, StepCost
from simworkers.agents.serving.replica import Replica, Schedule
from simworkers.agents.serving.requests import InFlight
from simworkers.agents.serving.run_cache import Found
from simworkers.agents.serving.token_blocks import VOCABULARY, TokenBlocks
from simworkers.agents.serving.workload import Turn, Workload, build_workload
from simworkers.agents.traffic.flags import HIT_RATE
from simworkers.agents.traffic.traces import Trace
from simworkers.engine.block_hash import extend_hashes
from simworkers.engine.config import EngineConfig, Limits
from simworkers.engine.engine import Engine
from simworkers.engine.model import Model, ModelShape, ModelWeights
from simworkers.engine.request import RefusedRequest, Request, Sampling

SHAPE = ModelShape(VOCABULARY, hidden=16, layers=1, heads=1, kv_heads=1, head_dim=16, feed_forward=16)


@dataclass(frozen=True)
class Way:
    """What became of one turn. cached_tokens: at its first admission; None: it was never admitted."""

    replica: int
    cached_tokens: int | None
    first_token_fs: int | None
    finished_fs: int | None


@dataclass(frozen=True)
class Row:
    """One turn on both sides; None: never sent, or refused."""

    turn: Turn
    simulated: Way | None
    engine: Way | None

    @property
    def agrees(self) -> bool:
        return self.simulated == self.engine


def check_against_engine(trace: Trace, setup: Setup) -> list[Row]:
    """Serve a (small) trace on both sides, one request at a time on each replica and without tiers below HBM.

    ValueError for a trace that no tokens can stand behind: an id behind two different blocks, or an empty prompt.
    """
    setup = replace(
        setup,
        schedule=Schedule(max_requests=1, longest_stretch=setup.schedule.longest_stretch),
        tiers=Tiers(),
    )
    workload = build_workload(trace, HIT_RATE)
    simulated = _ways(Cluster(workload, setup), workload)
    engine = _ways(_EngineCluster(workload, setup, TokenBlocks(trace, workload)), workload)
    return [Row(turn, simulated.get(turn.number), engine.get(turn.number)) for turn in workload.turns]


def _ways(cluster: Cluster, workload: Workload) -> dict[int, Way]:
    return {
        one.turn.number: Way(
            one.replica,
            None if one.found is None else min(one.found.blocks * workload.block_size, one.turn.input_tokens),
            one.first_token_at,
            one.finished_at,
        )
        for one in cluster.play().requests
    }


class _EngineCluster(Cluster):
    """Sessions, router and clock of the simulator over replicas that compute."""

    def __init__(self, workload: Workload, setup: Setup, texts: TokenBlocks) -> None:
        self._texts = texts
        super().__init__(workload, setup)

    def _build_replica(self, index: int, block_bytes: int) -> Replica:
        """It does all that a cluster asks of a replica but be sampled."""
        setup, block_size = self.setup, self.workload.block_size
        return cast(Replica, EngineReplica(index, block_size, setup.kv_blocks, setup.cost, self._texts))

    def _sample(self, at: int) -> None:
        """Nobody draws this side."""


class EngineReplica:
    """A torch engine that takes one request at a time, seen as a router sees a replica.

    The engine has no clock: its steps are priced as the simulator's are. A prompt is computed when its first step
    begins, which takes its room at once; until its last step is over, nobody sees what was computed. A decoding step is
    computed when it ends.
    """

    def __init__(
        self, index: int, block_size: int, kv_blocks: int, cost: StepCost, texts: TokenBlocks
    ) -> None:
        self.index, self.block_size, self.cost, self.texts = index, block_size, cost, texts
        self._config = EngineConfig(
            num_blocks=kv_blocks,
            block_size=block_size,
            limits=Limits(token_budget=cost.chunk_room(0), max_running=1),
        )
        self.is_up, self.is_draining = True, False
        self.sessions = 0
        self._asked: Turn | None = None
        self.version = 0
        self._start()

    def _start(self) -> None:
        self.engine = Engine(Model(SHAPE, ModelWeights.draw(SHAPE, seed=0)), None, self._config)
        self._queue: list[InFlight] = []
        self._current: tuple[InFlight, Request] | None = None
        self._reading: list[tuple[int, int]] = []  # (end of a prompt's step, tokens then left)
        self._left = 0
        self._unseen: set[bytes] = set()  # names of blocks that are being computed
        self.next_at: int | None = None
        self.version += 1

    # What a router sees (policies.ReplicaView).

    def ask(self, turn: Turn, at: int) -> None:
        self._asked = turn
        self.advance(at)

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return int(self._current is not None)

    @property
    def pending_tokens(self) -> int:
        return self._left + sum(request.estimated_tokens for request in self._queue)

    @property
    def kv_held_percent(self) -> int:
        held = self.engine.pool.num_held
        if self._reading and self._current is not None:  # an answer of one token is over when it is computed
            held = max(held, -(-self._current[1].num_prompt // self.block_size))
        return 100 * held // self._config.num_blocks

    def cached_tokens(self) -> int:
        assert self._asked is not None
        prompt = self.texts.prompt(self._asked)
        names = self._names(prompt)[: (len(prompt) - 1) // self.block_size]
        seen = next((place for place, name in enumerate(names) if name in self._unseen), len(names))
        return len(self.engine.pool.match(names[:seen])) * self.block_size

    # What happens to it.

    def submit(self, request: InFlight, at: int) -> bool:
        """Into the queue. False where the engine refuses it."""
        self.ask(request.turn, at)
        cached = self.cached_tokens()
        number, prompt = request.turn.number, self.texts.prompt(request.turn)
        try:  # each turn draws its own words: no answer repeats another
            self.engine.add_request(
                str(number), prompt, Sampling(request.wanted, temperature=1.0, seed=number)
            )
        except RefusedRequest:
            return False
        request.replica = self.index
        request.estimated_tokens = request.target - cached
        self._queue.append(request)
        if self._current is None:
            self._begin(at)
        return True

    def advance(self, at: int) -> None:
        """See what is over by then."""
        for end, left in self._reading:
            if end <= at:
                self._left = left

    def end_stretch(self, at: int) -> list[InFlight]:
        """A prompt is read, or a decoding step is over."""
        assert self._current is not None
        request, served = self._current
        finished = []
        if self._reading:
            self._reading, self._left, self._unseen = [], 0, set()
            request.first_token_at = at
        else:
            self.engine.step()
        if served.is_over:
            self.engine.check_integrity()
            request.finished_at = at
            self.texts.answer(request.turn, served.outputs)
            self._current = None
            finished.append(request)
        self._begin(at)
        return finished

    def fail(self, at: int) -> list[InFlight]:
        """It dies with its engine; its requests come back in order of the turns."""
        current = [self._current[0]] if self._current is not None else []
        lost = sorted([*current, *self._queue], key=lambda request: request.turn.number)
        self.is_up = False
        self._start()
        for request in lost:
            request.first_token_at = None
            request.retries += 1
        return lost

    def _begin(self, at: int) -> None:
        self.version += 1
        self.next_at = None
        if self._current is not None:
            served = self._current[1]
            step = self.cost.step(Batch(decodes=1, context_tokens=served.num_computed + 1, prefill_tokens=0))
            self.next_at = at + step.first
        elif self._queue:
            self._read(self._queue.pop(0), at)

    def _read(self, request: InFlight, at: int) -> None:
        """Compute a whole prompt, whose steps are over one after the other from now on."""
        served = self.engine.requests[str(request.turn.number)]
        self._current = request, served
        names = self._names(served.tokens)
        self._unseen = set(names[len(self.engine.pool.match(names)) :])
        end = at
        while not served.outputs:
            (span,) = self.engine.step().spans
            pairs = span.count * span.start + span.count * (span.count + 1) // 2
            end += self.cost.step(Batch(0, 0, span.count, pairs)).first
            self._reading.append((end, served.num_prompt - span.start - span.count))
        assert served.cached_tokens is not None
        self._left = served.num_prompt - served.cached_tokens
        if request.found is None:
            request.found, request.found_on = Found(served.cached_tokens // self.block_size), self.index
            request.admitted_at = at
        self.next_at = end

    def _names(self, tokens: Sequence[int]) -> list[bytes]:
        names: list[bytes] = []
        extend_hashes(names, tokens, self.block_size)
        return names
