"""From what happened in a cluster to the numbers that are reported."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from simworkers.agents.metrics import LoadRow, ResidencyRow, TurnRow
from simworkers.agents.scene import Scene
from simworkers.agents.serving.cluster import Outcome
from simworkers.agents.serving.cost import FS_PER_S, FS_PER_US
from simworkers.agents.serving.requests import InFlight
from simworkers.agents.serving.workload import Workload

Number = TypeVar("Number", int, float)

SHOWN_SESSIONS, SHOWN_TURNS, MOST_TURNS = 12, 1200, 300  # turns: of all of them, of one session
PARTS_OF_TIME, SHOWN_SAMPLES = 48, 120
LEAST_COMPLETED = 0.99


def nearest_rank(ordered: Sequence[Number], percent: int) -> Number:
    """Of values in rising order; at least one."""
    return ordered[max(-(-percent * len(ordered) // 100), 1) - 1]


@dataclass(frozen=True)
class Tokens:
    """Input tokens of one request by where they came from."""

    hbm: int
    host: int
    pool: int
    new: int

    @classmethod
    def of(cls, request: InFlight, block_size: int) -> "Tokens":
        found, size = request.found, request.turn.input_tokens
        assert found is not None, "it was never admitted"
        hbm = min(found.hbm * block_size, size)
        host = min((found.hbm + found.host) * block_size, size) - hbm
        pool = min(found.blocks * block_size, size) - hbm - host
        return cls(hbm, host, pool, size - hbm - host - pool)


@dataclass(frozen=True)
class Service:
    """What users got. Times in microseconds."""

    completed: int
    output_tokens: int
    ttft_us: list[int]  # rising; of every request, the horizon where it never ended
    tpot_us: list[float]  # rising; of completed requests with two outputs or more
    window_us: int
    gpus: int

    @property
    def ttft_mean_us(self) -> float:
        """Of all requests."""
        return sum(self.ttft_us) / len(self.ttft_us)

    @property
    def interactivity_p10(self) -> float:
        """Tokens a second; 0 where no request tells."""
        return 1e6 / nearest_rank(self.tpot_us[::-1], 10) if self.tpot_us else 0.0

    @property
    def tokens_per_gpu_s(self) -> float:
        return self.output_tokens * 1e6 / (self.window_us * self.gpus) if self.window_us else 0.0


def measure_service(workload: Workload, outcome: Outcome, gpus: int, horizon_us: int) -> Service:
    ttft_us, tpot_us, outputs, completed = [], [], 0, 0
    for request in outcome.requests:
        if request.finished_at is None:
            ttft_us.append(horizon_us)
            continue
        assert request.first_token_at is not None
        ttft_us.append((request.first_token_at - request.sent_at) // FS_PER_US)
        completed, outputs = completed + 1, outputs + request.turn.output_tokens
        if request.turn.output_tokens >= 2:
            decode_fs = request.finished_at - request.first_token_at
            tpot_us.append(decode_fs / FS_PER_US / (request.turn.output_tokens - 1))
    never_sent = len(workload.turns) - len(outcome.requests)
    ttft_us += [horizon_us] * never_sent
    return Service(completed, outputs, sorted(ttft_us), sorted(tpot_us), outcome.end_us, gpus)


def waited_tokens_per_s(outcome: Outcome) -> float:
    """Output tokens ÷ seconds from sending to the last token, over all requests; what never ended waited to the end
    and gave nothing."""
    waited_fs = outputs = 0
    for request in outcome.requests:
        if request.finished_at is None:
            waited_fs += outcome.end_us * FS_PER_US - request.sent_at
        else:
            waited_fs += request.finished_at - request.sent_at
            outputs += request.turn.output_tokens
    return outputs * FS_PER_S / waited_fs if waited_fs else 0.0


def meets_goal(service: Service, requests: int, floor: float) -> bool:
    """Interactivity at the floor, and hardly a request lost: more than the metric keeps_floor says."""
    return service.interactivity_p10 >= floor and service.completed >= LEAST_COMPLETED * requests


def imbalance(uncached: Sequence[int]) -> float:
    """max/mean over replicas."""
    total = sum(uncached)
    return max(uncached) * len(uncached) / total if total else 1.0


def uncached_by_replica(workload: Workload, outcome: Outcome) -> list[int]:
    """As each request was first admitted, which may have been on a replica that died since."""
    found = [0] * len(outcome.replicas)
    for request in admitted(outcome):
        found[request.found_on] += Tokens.of(request, workload.block_size).new
    return found


def admitted(outcome: Outcome) -> Iterable[InFlight]:
    return (request for request in outcome.requests if request.found is not None)


def hit_rate(workload: Workload, outcome: Outcome) -> float:
    """Of every tier."""
    cached = sum(
        request.turn.input_tokens - Tokens.of(request, workload.block_size).new
        for request in admitted(outcome)
    )
    total = prompt_tokens(workload, outcome)
    return cached / total if total else 0.0


def prompt_tokens(workload: Workload, outcome: Outcome) -> int:
    """Of admitted requests and of refused ones, which found nothing: else a cache too small for long prompts would seem
    to serve the rest the better."""
    return input_tokens(outcome) + sum(workload.turns[turn].input_tokens for turn in outcome.refused)


def input_tokens(outcome: Outcome) -> int:
    """Of admitted requests."""
    return sum(request.turn.input_tokens for request in admitted(outcome))


def ceiling(recorded: Workload) -> float:
    """The hit rate of one replica whose cache has no end. recorded: turns in the order in which they were recorded."""
    seen: set[int] = set()
    lengths, cached, total = recorded.run_lengths, 0, 0
    for turn in recorded.turns:
        found = 0
        for run in turn.chain.runs:
            if run not in seen:
                break
            found += lengths[run]
        found = min(turn.chain.leading_places(found, turn.blocks), turn.hit_cap)
        cached += min(found * recorded.block_size, turn.input_tokens)
        total += turn.input_tokens
        seen.update(turn.chain.runs, turn.kept)
    return cached / total if total else 0.0


def shares_of_time(outcome: Outcome) -> dict[str, float]:
    """What the time of all requests, from sending to the end, went to. Service is split as the busy time is."""
    whole_fs = queued_fs = blocked_fs = loading_fs = 0
    for request in outcome.requests:
        end_fs = request.finished_at if request.finished_at is not None else outcome.end_us * FS_PER_US
        queued, blocked, loading = request.waits(end_fs)
        whole_fs += end_fs - request.sent_at
        queued_fs, blocked_fs, loading_fs = queued_fs + queued, blocked_fs + blocked, loading_fs + loading
    busy_fs: Counter[str] = Counter()
    for replica in outcome.replicas:
        busy = replica.busy
        busy_fs.update(hbm_bandwidth=busy.hbm, flops=busy.flops, links=busy.links, host=busy.host)
    served_fs = max(whole_fs - blocked_fs - queued_fs - loading_fs, 0)
    all_busy_fs = max(sum(busy_fs.values()), 1)
    spent_fs = {
        name: served_fs * busy_fs[name] / all_busy_fs for name in ("hbm_bandwidth", "flops", "links", "host")
    }
    spent_fs["links"] += loading_fs
    spent_fs |= {"kv_capacity": float(blocked_fs), "queue": float(queued_fs)}
    return {name: part_fs / whole_fs if whole_fs else 0.0 for name, part_fs in spent_fs.items()}


def gpu_seconds(scene: Scene, outcome: Outcome) -> dict[str, float]:
    """All GPU time by what it went to."""
    gpus = scene.gpus // scene.setup.replicas
    found: defaultdict[str, float] = defaultdict(float)
    for replica in outcome.replicas:
        busy = replica.busy
        for name, busy_fs in (
            ("HBM", busy.hbm),
            ("FLOPs", busy.flops),
            ("links", busy.links),
            ("host", busy.host),
        ):
            found[name] += gpus * busy_fs / FS_PER_S
    found["idle"] = max(scene.gpus * outcome.end_us / 1e6 - sum(found.values()), 0.0)
    return dict(found)


def turn_rows(workload: Workload, outcome: Outcome) -> list[TurnRow]:
    """Of the first sessions' own agents, the first turns of each; rows without sessions as turns of one."""
    main = {streams[0] for streams in workload.begins[:SHOWN_SESSIONS]}
    most = most_turns(len(workload.begins))
    are_rows = workload.arrivals_us is not None
    rows = []
    for request in admitted(outcome):
        turn = request.turn
        is_shown = turn.number < MOST_TURNS if are_rows else turn.stream in main and turn.index < most
        if not is_shown or request.first_token_at is None:
            continue
        tokens = Tokens.of(request, workload.block_size)
        rows.append(
            TurnRow(
                session=1 if are_rows else turn.session + 1,
                turn=(turn.number if are_rows else turn.index) + 1,
                replica=request.replica,
                hbm_tokens=tokens.hbm,
                host_tokens=tokens.host,
                pool_tokens=tokens.pool,
                new_tokens=tokens.new,
                output_tokens=turn.output_tokens,
                ttft_us=(request.first_token_at - request.sent_at) // FS_PER_US,
            )
        )
    return rows


def most_turns(sessions: int) -> int:
    """That `turn_rows` has of one session."""
    return min(SHOWN_TURNS // min(sessions, SHOWN_SESSIONS), MOST_TURNS)


def load_rows(workload: Workload, outcome: Outcome) -> list[LoadRow]:
    """Uncached tokens by part of the time and replica."""
    part_us = max(-(-outcome.end_us // PARTS_OF_TIME), 1)
    found: Counter[tuple[int, int]] = Counter()
    for request in admitted(outcome):
        part = request.sent_at // FS_PER_US // part_us
        found[part, request.found_on] += Tokens.of(request, workload.block_size).new
    parts = -(-outcome.end_us // part_us)
    return [
        LoadRow(time_s=part * part_us / 1e6, replica=replica, uncached_tokens=found[part, replica])
        for part in range(parts)
        for replica in range(len(outcome.replicas))
    ]


def residency_rows(scene: Scene, outcome: Outcome) -> list[ResidencyRow]:
    step = max(-(-len(outcome.samples) // SHOWN_SAMPLES), 1)
    setup = scene.setup
    hbm = setup.kv_blocks * setup.replicas
    host = max(setup.tiers.host_blocks * setup.replicas, 1)
    return [
        ResidencyRow(
            time_s=sample.at_us / 1e6,
            held_share=sum(sample.held_blocks) / hbm,
            cached_share=sum(sample.cached_blocks) / hbm,
            host_share=sum(sample.host_blocks) / host,
            pool_share=sample.pool_blocks / max(setup.tiers.pool_blocks, 1),
        )
        for sample in outcome.samples[::step]
    ]


def moves(outcome: Outcome) -> tuple[int, int]:
    """(times that a session changed replicas, most sessions that one replica served)"""
    last: dict[int, int] = {}
    served: defaultdict[int, set[int]] = defaultdict(set)
    changed = 0
    for request in sorted(admitted(outcome), key=lambda one: (one.sent_at, one.turn.number)):
        session = request.turn.session
        changed += last.get(session, request.replica) != request.replica
        last[session] = request.replica
        served[request.replica].add(session)
    return changed, max((len(sessions) for sessions in served.values()), default=0)


def watched(scene: Scene, outcome: Outcome) -> dict[str, Any]:
    """The turn that is looked at closely; zeros where it was never admitted."""
    first, end = scene.workload.streams[scene.workload.begins[_watched_session(scene)][0]]
    number = min(first + scene.params.watched_turn, end) - 1
    size = scene.workload.turns[number].input_tokens
    cached = 0
    for request in admitted(outcome):
        if request.turn.number == number:
            cached = size - Tokens.of(request, scene.workload.block_size).new
    return {
        "watched_input_tokens": size,
        "watched_cached_tokens": cached,
        "watched_new_tokens": size - cached,
        "watched_cached_share": cached / size if size else 0.0,
    }


def _watched_session(scene: Scene) -> int:
    """A recorded trace may have fewer sessions than were asked for."""
    return min(scene.params.watched_session, len(scene.workload.begins)) - 1
