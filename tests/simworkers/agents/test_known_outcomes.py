"""What is published of routing agent sessions, as orderings on the committed synthetic trace; and where it turns round.

The stating scene: four replicas of Qwen3-32B, each on two H100s, and 24 sessions at once (means of 6,800 input and 22
output tokens a request). 800 blocks of 64 tokens hold seven of the longest contexts. *Loaded* means that agents do not
think between turns, *quiet* that they think as recorded, half a minute at most.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from simworkers.agents.measure import hit_rate, imbalance, measure_service, nearest_rank, uncached_by_replica
from simworkers.agents.serving.cluster import Incident, Outcome, Setup, Tiers, simulate_cluster
from simworkers.agents.serving.cost import StepCost
from simworkers.agents.serving.policies import POLICIES, Ask, Limits, ReplicaView
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.serving.workload import Workload, build_workload
from simworkers.agents.traffic.traces import Trace, read_trace
from simworkers.hardware import GPUS
from tests.simworkers.agents.test_policies import View

TRACE = Path(__file__).parents[3] / "fixtures/traces/agent-sessions.jsonl.gz"
SECOND_US = 10**6
SCENE = Setup(
    replicas=4,
    kv_blocks=800,
    cost=StepCost(
        MODELS["qwen3-32b"],
        GPUS["h100"],
        tensor_parallel=2,
        token_budget=8192,
        step_overhead_us=1000,
        collective_us=10,
    ),
    sessions_at_once=24,
    start_gap_us=SECOND_US,
)


@dataclass(frozen=True)
class Seen:
    """What a run shows."""

    workload: Workload
    outcome: Outcome
    hits: float
    imbalance: float  # max/mean over replicas of new tokens
    ttft_p99_us: int
    ttft_mean_us: float
    interactivity: float  # P90 floor, tokens a second
    tokens_per_gpu_s: float  # of output


@cache
def recorded() -> Trace:
    with TRACE.open("rb") as file:
        return read_trace(file)


@cache
def workload(think_percent: int, kind: str = "recorded") -> Workload:
    made: dict[str, Callable[[], Trace]] = {"recorded": recorded, "pinned": pinned, "one turn": one_turn}
    return build_workload(made[kind](), think_percent=think_percent, think_at_most_us=30 * SECOND_US)


def one_turn() -> Trace:
    """Nobody comes back."""
    return Trace([replace(session, requests=session.requests[:1]) for session in recorded().sessions])


def ring() -> list[int]:
    """Where a ring sends each session."""
    views: list[ReplicaView] = [View(index) for index in range(4)]
    asks = [Ask(0, session, 1, None, 0) for session in range(len(recorded().sessions))]
    return [POLICIES["consistent_hash"](ask, views, Limits()).index for ask in asks]


def pinned_sessions() -> set[int]:
    """Of the replica that a ring sends most sessions to: 11 of 24."""
    places = ring()
    (busiest, _), *_ = Counter(places).most_common()
    return {session for session, replica in enumerate(places) if replica == busiest}


def pinned() -> Trace:
    """As if the others had just ended: they have one turn, the sessions of the busiest replica have all."""
    chosen = pinned_sessions()
    return Trace(
        [
            session if number in chosen else replace(session, requests=session.requests[:1])
            for number, session in enumerate(recorded().sessions)
        ]
    )


@cache
def run(policy: str, think_percent: int, kind: str = "recorded", setup: Setup = SCENE) -> Seen:
    made = workload(think_percent, kind)
    outcome = simulate_cluster(made, replace(setup, policy=policy))
    service = measure_service(made, outcome, gpus=8, horizon_us=outcome.end_us)
    assert service.completed == len(made.turns)
    return Seen(
        made,
        outcome,
        hit_rate(made, outcome),
        imbalance(uncached_by_replica(made, outcome)),
        nearest_rank(service.ttft_us, 99),
        service.ttft_mean_us,
        service.interactivity_p10,
        service.tokens_per_gpu_s,
    )


def loaded(policy: str, **changes: object) -> Seen:
    return run(policy, 0, setup=replace(SCENE, **changes))  # type: ignore[arg-type]


def quiet(policy: str, **changes: object) -> Seen:
    return run(policy, 100, setup=replace(SCENE, **changes))  # type: ignore[arg-type]


def replicas_of_first_turns(seen: Seen) -> Counter[int]:
    own = {streams[0] for streams in seen.workload.begins}
    return Counter(
        one.replica for one in seen.outcome.requests if one.turn.stream in own and not one.turn.index
    )


# Published: hash-sticky .93 with new-token max/mean 2.1; longest prefix .95 and 1.27; round robin .55 to .61.


def test_round_robin_hits_least_and_the_longest_prefix_most():
    by_turns, by_hash, by_prefix = map(loaded, ("round_robin", "consistent_hash", "longest_prefix"))
    assert by_turns.hits + 0.2 < by_hash.hits < by_prefix.hits


def test_a_hash_spreads_new_tokens_worst_and_round_robin_best():
    by_turns, by_hash, by_prefix = map(loaded, ("round_robin", "consistent_hash", "longest_prefix"))
    assert by_turns.imbalance < by_prefix.imbalance < by_hash.imbalance - 0.5


def test_with_kv_to_spare_a_hash_hits_what_the_longest_prefix_hits():
    """Counter-case: what it loses, it loses to replicas that are full."""
    by_hash, by_prefix = (loaded(policy, kv_blocks=4000) for policy in ("consistent_hash", "longest_prefix"))
    assert by_hash.hits == pytest.approx(by_prefix.hits, abs=0.002)


def test_in_a_quiet_cluster_the_longest_prefix_spreads_worse_than_sticky():
    """Counter-case: nothing of a new session is cached anywhere, no replica has requests, and the first one gets it."""
    by_prefix, sticky = quiet("longest_prefix"), quiet("sticky")
    assert by_prefix.imbalance > sticky.imbalance + 0.5
    assert by_prefix.hits < sticky.hits


def test_where_nobody_comes_back_no_policy_hits_and_all_spread_alike():
    """Counter-case to all that follow a session or its prefix. All sessions come at once, so that there is load."""
    policies, together = (
        ("round_robin", "sticky", "longest_prefix", "least_queue"),
        replace(SCENE, start_gap_us=0),
    )
    seen = [run(policy, 0, "one turn", together) for policy in policies]
    assert {one.hits for one in seen} == {0.0}
    assert len({one.imbalance for one in seen}) == 1


# Published: consistent hashing pinned to a saturated replica, hit rate 98% → 5%.


def hits_until_one_of_the_pinned_ends(policy: str, kv_blocks: int) -> float:
    seen = run(policy, 0, "pinned", replace(SCENE, kv_blocks=kv_blocks, start_gap_us=0))
    chosen, ends = pinned_sessions(), Counter[int]()
    for one in seen.outcome.requests:
        assert one.finished_at is not None
        ends[one.turn.session] = max(ends[one.turn.session], one.finished_at)
    first_end = min(ends[session] for session in chosen)
    cached = total = 0
    for one in seen.outcome.requests:
        if one.turn.session in chosen and one.sent_at < first_end and one.turn.index:
            assert one.found is not None
            cached += one.found.blocks * seen.workload.block_size
            total += one.turn.input_tokens
    return cached / total


def test_sessions_pinned_to_a_saturated_replica_lose_nearly_all_their_hits():
    pinned, spilled = (
        hits_until_one_of_the_pinned_ends(one, 700) for one in ("consistent_hash", "sticky_spill")
    )
    assert pinned < spilled / 10


def test_the_same_sessions_on_the_same_replica_hit_while_it_has_room_for_them():
    """Counter-case: being pinned costs no hits, being pinned where KV is short does."""
    pinned, spilled = (
        hits_until_one_of_the_pinned_ends(one, 4000) for one in ("consistent_hash", "sticky_spill")
    )
    assert pinned == pytest.approx(spilled, abs=0.002)


# Published: no load between turns sends every session to one replica.


@pytest.mark.parametrize("policy", ["sticky_least_queue", "least_queue", "longest_prefix"])
def test_without_load_between_turns_nearly_every_new_session_goes_to_the_first_replica(policy):
    crowded, counted = (quiet(one, start_gap_us=20 * SECOND_US) for one in (policy, "sticky"))
    placed, evenly = replicas_of_first_turns(crowded), replicas_of_first_turns(counted)
    assert placed[0] > 4 * (placed.total() - placed[0])
    assert placed[0] > 2 * max(evenly.values())


def test_sessions_that_crowd_on_one_replica_for_lack_of_load_lose_hits_and_wait():
    crowded, counted = quiet("sticky_least_queue"), quiet("sticky")
    assert crowded.hits < counted.hits - 0.1
    assert crowded.imbalance > 2 * counted.imbalance
    assert crowded.ttft_mean_us > 2 * counted.ttft_mean_us


def test_under_load_the_queue_places_sessions_as_well_as_counting_them():
    """Counter-case."""
    by_queue, counted = loaded("sticky_least_queue"), loaded("sticky")
    assert by_queue.hits == pytest.approx(counted.hits, abs=0.005)
    assert by_queue.imbalance == pytest.approx(counted.imbalance, abs=0.1)


# Published: sticky with a 2× load override restores latency.

RETURNING = tuple(Incident(0, replica, "drain") for replica in (1, 2, 3)) + tuple(
    Incident(20 * SECOND_US, replica, "return") for replica in (1, 2, 3)
)


def returning(policy: str, think_percent: int = 0) -> Seen:
    """All sessions begin on one replica; after 20 seconds three more are there."""
    return run(
        policy,
        think_percent,
        setup=replace(SCENE, incidents=RETURNING, kv_blocks=1500, start_gap_us=SECOND_US // 10),
    )


def test_sticky_sessions_stay_on_a_saturated_replica_beside_three_that_idle():
    sticky = returning("sticky")
    assert sticky.imbalance == 4.0
    assert {one.replica for one in sticky.outcome.requests} == {0}


def test_an_override_restores_latency():
    sticky, override = returning("sticky"), returning("sticky_override")
    assert override.ttft_mean_us < sticky.ttft_mean_us / 3
    assert override.ttft_p99_us < sticky.ttft_p99_us
    assert override.interactivity > 5 * sticky.interactivity
    assert override.hits > sticky.hits


def test_spilling_restores_latency_where_requests_wait():
    sticky, spill = returning("sticky"), returning("sticky_spill")
    assert spill.ttft_mean_us < sticky.ttft_mean_us / 3


def test_spilling_does_not_see_kv_that_is_short_between_turns():
    """Counter-case: sessions that think hold no blocks while they do, so nobody waits and nothing is held; yet what
    they come back to has been pushed out. The override sees a few requests more and moves them."""
    sticky, spill, override = (
        returning(policy, think_percent=20) for policy in ("sticky", "sticky_spill", "sticky_override")
    )
    assert spill.hits == sticky.hits < 0.9 < override.hits
    assert override.ttft_mean_us < spill.ttft_mean_us


def test_an_override_moves_sessions_for_nothing_where_replicas_are_hardly_loaded():
    """Counter-case: three requests against one are more than twice the load, and no reason to leave the cache."""
    sticky, override = (quiet(policy, kv_blocks=600) for policy in ("sticky", "sticky_override"))
    assert override.hits < sticky.hits
    assert override.ttft_mean_us > sticky.ttft_mean_us


# When sticky does not win.


def test_over_a_shared_pool_the_least_queue_hits_what_sticky_hits_and_answers_sooner():
    pool = Tiers(pool_blocks=100_000, pool_bytes_per_s=100e9)
    sticky, by_queue = (loaded(policy, tiers=pool) for policy in ("sticky", "least_queue"))
    assert by_queue.hits == pytest.approx(sticky.hits, abs=0.002)
    assert by_queue.imbalance < sticky.imbalance
    assert by_queue.ttft_mean_us < sticky.ttft_mean_us


def test_without_that_pool_sticky_hits_more_and_answers_sooner():
    sticky, by_queue = loaded("sticky"), loaded("least_queue")
    assert sticky.hits > by_queue.hits
    assert sticky.ttft_mean_us < by_queue.ttft_mean_us


def test_prefixes_with_balancing_spread_a_loaded_cluster_better_than_sticky_and_hit_as_much():
    sticky, balanced = loaded("sticky"), loaded("prefix_else_balance")
    assert balanced.hits == pytest.approx(sticky.hits, abs=0.005)
    assert balanced.imbalance < sticky.imbalance - 0.1


# Warm turns add too few tokens to fill a pipeline: an outcome, not a rule.


def divided(kind: str, links: str, **parallel: int) -> Seen:
    """All eight GPUs as one replica, over NVLink or over a network of 50 GB/s."""
    gpu = GPUS["h100"]
    if links == "network":
        gpu = replace(gpu, nvlink_bytes_per_s=50e9)
    cost = StepCost(
        MODELS["qwen3-32b"], gpu, token_budget=8192, step_overhead_us=1000, collective_us=10, **parallel
    )
    setup = replace(SCENE, replicas=1, kv_blocks=4 * SCENE.kv_blocks, cost=cost)
    return run("sticky", 0, kind, setup if kind == "recorded" else replace(setup, start_gap_us=0))


@pytest.mark.parametrize("links", ["nvlink", "network"])
def test_warm_turns_are_served_better_by_tensor_parallelism_whatever_the_links(links):
    tensor, pipeline = (
        divided("recorded", links, **{f"{name}_parallel": 8}) for name in ("tensor", "pipeline")
    )
    assert tensor.tokens_per_gpu_s > 1.5 * pipeline.tokens_per_gpu_s
    assert tensor.ttft_mean_us < pipeline.ttft_mean_us


def test_fresh_prompts_over_a_network_are_served_better_by_a_pipeline():
    """Counter-case: they fill its stages, and spare the all-reduces."""
    tensor, pipeline = (
        divided("one turn", "network", **{f"{name}_parallel": 8}) for name in ("tensor", "pipeline")
    )
    assert pipeline.tokens_per_gpu_s > tensor.tokens_per_gpu_s
    assert pipeline.ttft_mean_us < tensor.ttft_mean_us / 2


def test_over_nvlink_tensor_parallelism_serves_fresh_prompts_better_too():
    """Counter-case to the counter-case."""
    tensor, pipeline = (
        divided("one turn", "nvlink", **{f"{name}_parallel": 8}) for name in ("tensor", "pipeline")
    )
    assert tensor.tokens_per_gpu_s > pipeline.tokens_per_gpu_s
    assert tensor.ttft_mean_us < pipeline.ttft_mean_us
