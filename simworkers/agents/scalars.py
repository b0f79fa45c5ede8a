"""Every metric of a run that is one number and no other simulation decides."""

from typing import Any

from simworkers.agents import measure
from simworkers.agents.checks import write_shares
from simworkers.agents.compare import Searches, usd, usd_per_million, usd_per_session
from simworkers.agents.measure import Service
from simworkers.agents.scene import Scene
from simworkers.agents.serving.cluster import Outcome


def scalars(
    scene: Scene, outcome: Outcome, hit_rate_ceiling: float, searches: Searches | None
) -> dict[str, Any]:
    """By name."""
    service = measure.measure_service(scene.workload, outcome, scene.gpus, scene.setup.horizon_us)
    return {
        **_requests(scene, outcome, service),
        **_tokens(scene, outcome, service),
        "hit_rate_ceiling": hit_rate_ceiling,
        **_waits(scene, service),
        **_throughput(scene, outcome, service),
        **_costs(scene, service),
        **_cluster(scene, outcome),
        **search_scalars(searches),
        **measure.watched(scene, outcome),
        **_shares(scene, outcome),
    }


def _requests(scene: Scene, outcome: Outcome, service: Service) -> dict[str, Any]:
    moves, busiest = measure.moves(outcome)
    requests = len(scene.workload.turns)
    return {
        "sessions": len(scene.workload.begins),
        "requests": requests,
        "completed_requests": service.completed,
        "completed_share": service.completed / requests,
        "refused_requests": len(outcome.refused),
        "preemptions": sum(request.preemptions for request in outcome.requests),
        "retries": sum(request.retries for request in outcome.requests),
        "moves": moves,
        "sessions_on_busiest": busiest,
    }


def _tokens(scene: Scene, outcome: Outcome, service: Service) -> dict[str, Any]:
    """By where they came from."""
    workload = scene.workload
    tokens = [measure.Tokens.of(request, workload.block_size) for request in measure.admitted(outcome)]
    hbm, host, pool, new = (
        sum(getattr(one, name) for one in tokens) for name in ("hbm", "host", "pool", "new")
    )
    prompts = measure.prompt_tokens(workload, outcome)
    return {
        "input_tokens": measure.input_tokens(outcome),
        "refused_tokens": prompts - measure.input_tokens(outcome),
        "hbm_tokens": hbm,
        "host_tokens": host,
        "pool_tokens": pool,
        "uncached_tokens": new,
        "output_tokens": service.output_tokens,
        "hit_rate": measure.hit_rate(workload, outcome),
        "hbm_hit_rate": hbm / prompts if prompts else 0.0,
        "load_imbalance": measure.imbalance(measure.uncached_by_replica(workload, outcome)),
    }


def _waits(scene: Scene, service: Service) -> dict[str, Any]:
    """What users felt."""
    ttft_us, tpot_us = service.ttft_us, service.tpot_us
    return {
        "ttft_mean_us": service.ttft_mean_us,
        "ttft_p50_us": measure.nearest_rank(ttft_us, 50),
        "ttft_p90_us": measure.nearest_rank(ttft_us, 90),
        "ttft_p99_us": measure.nearest_rank(ttft_us, 99),
        "tpot_mean_us": sum(tpot_us) / len(tpot_us) if tpot_us else 0.0,
        "tpot_p99_us": measure.nearest_rank(tpot_us, 99) if tpot_us else 0.0,
        "interactivity_p10": service.interactivity_p10,
        "keeps_floor": int(service.interactivity_p10 >= scene.params.floor_tokens_per_s),
    }


def _throughput(scene: Scene, outcome: Outcome, service: Service) -> dict[str, Any]:
    window_s, rate = service.window_us / 1e6, service.tokens_per_gpu_s
    is_goal_met = measure.meets_goal(service, len(scene.workload.turns), scene.params.floor_tokens_per_s)
    return {
        "window_s": window_s,
        "gpus": scene.gpus,
        "tokens_per_gpu_s": rate,
        "goal_tokens_per_gpu_s": rate if is_goal_met else 0.0,
        "input_tokens_per_gpu_s": measure.input_tokens(outcome) / (window_s * scene.gpus)
        if window_s
        else 0.0,
        "waited_tokens_per_s": measure.waited_tokens_per_s(outcome),
    }


def _costs(scene: Scene, service: Service) -> dict[str, Any]:
    cost = usd(scene, service.window_us)
    return {
        "cost_usd": cost,
        "usd_per_million": usd_per_million(scene, service),
        "usd_per_session": usd_per_session(scene, service.window_us),
    }


def _cluster(scene: Scene, outcome: Outcome) -> dict[str, Any]:
    """KV of a replica, and the links to the tiers below it."""
    setup = scene.setup
    writes = [write_shares(outcome, replica.index) for replica in outcome.replicas]
    return {
        "kv_blocks": setup.kv_blocks,
        "kv_bytes": setup.kv_blocks * scene.workload.block_size * setup.cost.model.kv_bytes_per_token,
        "peak_held_share": max(replica.peak_held_blocks for replica in outcome.replicas) / setup.kv_blocks,
        "write_back_share": max(one["host"] for one in writes),
        "pool_write_share": max(one["pool"] for one in writes),
    }


def _shares(scene: Scene, outcome: Outcome) -> dict[str, Any]:
    """What time went to: of requests, of GPUs."""
    gpu_seconds = measure.gpu_seconds(scene, outcome)
    whole = sum(gpu_seconds.values())
    return {
        **{f"share_{name}": share for name, share in measure.shares_of_time(outcome).items()},
        "busy_share": 1 - gpu_seconds["idle"] / whole if any(gpu_seconds.values()) else 0.0,
    }


def search_scalars(searches: Searches | None) -> dict[str, Any]:
    """Zeros without a search, and where no load keeps the floor."""

    def rate(name: str) -> float:
        search = getattr(searches, name) if searches else None
        best = search.best if search else None
        return best.tokens_per_gpu_s if best else 0.0

    return {
        "search_sessions": searches.own.load if searches else 0,
        "search_tokens_per_gpu_s": rate("own"),
        "search_round_robin_tokens_per_gpu_s": rate("round_robin"),
        "search_bound_tokens_per_gpu_s": rate("bound"),
    }
