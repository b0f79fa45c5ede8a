"""The same sessions under other policies and loads, and the load that keeps the floor."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from simworkers.agents.load_search import Searched, search_load
from simworkers.agents.measure import (
    Service,
    hit_rate,
    imbalance,
    measure_service,
    meets_goal,
    nearest_rank,
    uncached_by_replica,
)
from simworkers.agents.metrics import CurveRow, PolicyRow
from simworkers.agents.scene import Scene
from simworkers.agents.serving.cluster import Outcome, simulate_cluster

COMPARED = ("round_robin", "least_queue", "consistent_hash", "longest_prefix", "sticky", "sticky_spill")
LOADS_PERCENT = (13, 25, 50, 100, 200)  # of the sessions at once that the run has
PLAYS_OF_A_SEARCH = 12  # roughly, for progress

Step = Callable[[], None]


@dataclass(frozen=True)
class Searches:
    """What the searched load gives under the run's own policy, under round robin, and where KV has no end; None: not
    searched."""

    own: Searched[Service]
    round_robin: Searched[Service] | None = None
    bound: Searched[Service] | None = None


def play(
    scene: Scene, policy: str, sessions_at_once: int, kv_blocks: int | None = None
) -> tuple[Outcome, Service]:
    setup = replace(
        scene.setup,
        policy=policy,
        sessions_at_once=sessions_at_once,
        kv_blocks=kv_blocks or scene.setup.kv_blocks,
    )
    outcome = simulate_cluster(scene.workload, setup, scene.on_turn)
    return outcome, measure_service(scene.workload, outcome, scene.gpus, setup.horizon_us)


def usd(scene: Scene, window_us: int) -> float:
    return scene.gpus * window_us / 3.6e9 * scene.params.gpu_hour_usd


def usd_per_session(scene: Scene, window_us: int) -> float:
    """0 where the trace's rows have no sessions, each played as one."""
    return usd(scene, window_us) / len(scene.workload.begins) if scene.trace.has_sessions else 0.0


def usd_per_million(scene: Scene, service: Service) -> float:
    """Of output tokens; 0 where there are none."""
    return usd(scene, service.window_us) / service.output_tokens * 1e6 if service.output_tokens else 0.0


def policy_row(scene: Scene, policy: str, outcome: Outcome, service: Service) -> PolicyRow:
    return PolicyRow(
        policy=policy,
        hit_rate=hit_rate(scene.workload, outcome),
        load_imbalance=imbalance(uncached_by_replica(scene.workload, outcome)),
        ttft_p90_us=nearest_rank(service.ttft_us, 90),
        interactivity_p10=service.interactivity_p10,
        tokens_per_gpu_s=service.tokens_per_gpu_s,
        usd_per_million=usd_per_million(scene, service),
        usd_per_session=usd_per_session(scene, service.window_us),
    )


def compared_policies(scene: Scene) -> tuple[str, ...]:
    own = scene.params.policy
    return COMPARED if own in COMPARED else (*COMPARED, own)


def compare_policies(scene: Scene, step: Step) -> tuple[list[PolicyRow], list[CurveRow]]:
    """step: called after every simulation."""
    sessions, at_once = len(scene.workload.begins), scene.params.sessions_at_once
    loads = sorted({min(max(at_once * percent // 100, 1), sessions) for percent in LOADS_PERCENT})
    own_load = min(at_once, sessions)
    if scene.workload.arrivals_us is not None:
        loads = [own_load]  # rows come when they come
    rows, curves = [], []
    for policy in compared_policies(scene):
        for load in loads:
            outcome, service = play(scene, policy, load)
            curves.append(
                CurveRow(
                    policy=policy,
                    sessions_at_once=load,
                    interactivity_p10=service.interactivity_p10,
                    tokens_per_gpu_s=service.tokens_per_gpu_s,
                    completed_share=service.completed / len(scene.workload.turns),
                )
            )
            if load == own_load:
                rows.append(policy_row(scene, policy, outcome, service))
            step()
    return rows, curves


def count_plays(scene: Scene) -> int:
    """Of `compare_policies`."""
    return len(compared_policies(scene)) * len(LOADS_PERCENT)


def endless_blocks(scene: Scene) -> int:
    """KV blocks of a replica that never run out."""
    blocks = sum(scene.workload.run_lengths) + sum(
        -(-turn.output_tokens // scene.workload.block_size) + 2 for turn in scene.workload.turns
    )
    return max(blocks, scene.setup.kv_blocks)


def search_loads(scene: Scene, step: Step) -> Searches:
    """The load search three times: as set, under round robin, and with KV that never runs out. As set alone, where a
    task's anchors tell the rest."""

    def search(policy: str, kv_blocks: int | None = None) -> Searched[Service]:
        def serve(load: int) -> Service:
            _, service = play(scene, policy, load, kv_blocks)
            step()
            return service

        requests, floor = len(scene.workload.turns), scene.params.floor_tokens_per_s
        return search_load(
            serve, lambda service: meets_goal(service, requests, floor), len(scene.workload.begins)
        )

    own = search(scene.params.policy)
    if scene.params.scored_as == "throughput":
        return Searches(own)
    return Searches(own, search("round_robin"), search("sticky", endless_blocks(scene)))
