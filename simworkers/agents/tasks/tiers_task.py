"""The task `tiers-within-budget`: which memory to buy for KV that HBM cannot hold.

A budget buys host memory beside each replica, or a pool that all replicas share, or less of either. Where sessions stay
with their replica the host is right, where they move the pool is, and where links are slow a hit takes longer to load
than to compute again, so that the money is best kept. Today one of the two wrong decisions is in place.
"""

from collections.abc import Mapping
from typing import Any

from simworkers.agents.measure import hit_rate
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import Scene, build_scene
from simworkers.agents.serving.cluster import simulate_cluster
from simworkers.agents.serving.cost import FS_PER_US, Batch
from simworkers.agents.tasks.candidates import shown_load
from simworkers.agents.tasks.choices import one_of
from simworkers.agents.tasks.tier_budget import (
    ALL_HOST,
    ALL_POOL,
    NEITHER,
    PURE,
    Parts,
    all_ways,
    runner_up,
    waits_us,
)
from simworkers.hardware import GB
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.rng import Stream

CLUSTERS = (
    ("qwen3-32b", "h100", 2),
    ("qwen3-32b", "h200", 1),
    ("qwen3-30b-a3b", "h200", 1),
    ("llama-3.1-70b", "h200", 2),
)
STAYING, MOVING = ("sticky", "sticky_spill"), ("least_queue", "round_robin")
GB_PER_S = (0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0)
# Decision that is to be best → policies and rates of the host link among which an instance is likely.
LIKELY = {
    NEITHER: (STAYING + MOVING, GB_PER_S[:4]),
    ALL_HOST: (STAYING + MOVING, GB_PER_S[2:]),
    ALL_POOL: (MOVING, GB_PER_S[3:]),
}
SHOWN = (
    "sessions",
    "sessions_at_once",
    "turns_percent",
    "context_percent",
    "model",
    "gpu",
    "replicas",
    "tensor_parallel",
    "kv_blocks",
    "policy",
    "host_gb",
    "host_gb_per_s",
    "host_usd_per_gb",
    "pool_gb",
    "pool_gb_per_s",
    "pool_usd_per_gb",
    "memory_budget_usd",
    "compare_policies",
    "compare_tiers",
)
PRACTICE_SEEDS = (1, 2)
DRAWS = 400
LEAST_DISTANCE = 1.2  # second best ÷ best of the three decisions that do not mix
LONGEST_WAIT_US = 60e6  # a request that never ends counts a day
EXPERT_REACHES = 0.85  # of the way from the second best to the best way of all


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves. Which decision is right is drawn first, so that each is as likely."""
    wanted = one_of(Stream(seed, "tiers-within-budget"), PURE)
    return draw_until_it_serves(
        seed, "tiers-within-budget", lambda stream: _draw(stream, wanted, progress), DRAWS
    )


def _draw(stream: Stream, wanted: Parts, progress: Progress) -> PreparedInstance | None:
    """wanted: the best of the three decisions that do not mix."""
    progress(0, 1)
    params = _draw_params(stream, wanted)
    seed = stream.integer(SEEDS)
    scene = build_scene(params, seed)
    pure = waits_us(scene, lambda: progress(0, 1), PURE)
    if min(pure, key=lambda parts: pure[parts]) != wanted:
        return None
    if runner_up(pure) < LEAST_DISTANCE * pure[wanted] or runner_up(pure) > LONGEST_WAIT_US:
        return None
    waits = waits_us(scene, lambda: progress(0, 1))
    found = waits[best_in_practice(params)]
    if runner_up(waits) - found < EXPERT_REACHES * (runner_up(waits) - min(waits.values())):
        return None
    today = _with_way(params, one_of(stream, [parts for parts in PURE if parts != wanted]))
    return PreparedInstance(params=today.model_dump(), visible=_describe(today, scene), seed=seed)


def _draw_params(stream: Stream, wanted: Parts) -> AgentParams:
    """Of the two tiers the one that is not wanted gives more gigabytes for the money, in so far as it matters."""
    model, gpu, tensor_parallel = one_of(stream, CLUSTERS)
    at_once = 20 + stream.integer(9)
    policies, rates = LIKELY[wanted]
    host_gb_per_s = one_of(stream, rates)
    pool_gb_per_s = one_of(stream, [rate for rate in GB_PER_S if rate <= min(host_gb_per_s, 25)])
    cheap, dear = one_of(stream, (1, 2, 3)), one_of(stream, (4, 5, 6))
    is_host_dear = wanted == ALL_HOST or (wanted == NEITHER and stream.integer(2) == 0)
    values: dict[str, Any] = {
        "sessions": at_once,
        "sessions_at_once": at_once,
        "turns_percent": 10,
        "context_percent": 30,
        "model": model,
        "gpu": gpu,
        "replicas": 4,
        "tensor_parallel": tensor_parallel,
        "kv_blocks": one_of(stream, (2500, 2800)),
        "policy": one_of(stream, policies),
        "host_gb_per_s": host_gb_per_s,
        "pool_gb_per_s": pool_gb_per_s,
        "host_usd_per_gb": float(dear if is_host_dear else cheap),
        "pool_usd_per_gb": float(cheap if is_host_dear else dear),
        "memory_budget_usd": float(100 * one_of(stream, (2, 3, 4, 6, 8, 12))),
        "compare_policies": False,
        "compare_tiers": True,
    }
    return AgentParams.model_validate(values)


def _with_way(params: AgentParams, parts: Parts) -> AgentParams:
    way = all_ways(params)[parts]
    return params.model_copy(update={"host_gb": way.host_gb, "pool_gb": way.pool_gb})


def _describe(params: AgentParams, scene: Scene) -> dict[str, Any]:
    """The scene, its prices, and what a thousand tokens are to each part of the machine."""
    setup, tiers = scene.setup, scene.setup.tiers
    token_bytes = setup.cost.model.kv_bytes_per_token
    return params.model_dump(include=set(SHOWN)) | {
        "kv_bytes_per_token": token_bytes,
        "kv_gb_per_replica": round(setup.kv_blocks * scene.workload.block_size * token_bytes / GB, 1),
        "compute_us_per_1000_tokens": _compute_us_per_1000_tokens(scene),
        "load_us_per_1000_tokens_from_host": round(token_bytes * 1e9 / tiers.host_bytes_per_s),
        "load_us_per_1000_tokens_from_pool": round(token_bytes * 1e9 / tiers.pool_bytes_per_s),
    }


def _compute_us_per_1000_tokens(scene: Scene) -> int:
    """Of a prompt of the load's mean length, computed whole on an idle replica: its attention counts."""
    prompts = [turn.input_tokens for turn in scene.workload.turns]
    mean_tokens, budget = sum(prompts) // len(prompts), scene.setup.cost.token_budget
    # A chunk from its middle: each token sees half of the prompt.
    step = scene.setup.cost.step(Batch(0, 0, budget, prefill_pairs=budget * mean_tokens // 2))
    return round(step.first / budget * 1000 / FS_PER_US)


def _most_gigabytes(params: AgentParams) -> Parts:
    """The whole budget on whatever gives more gigabytes for it."""
    return ALL_HOST if params.host_usd_per_gb <= params.pool_usd_per_gb else ALL_POOL


def best_in_practice(params: AgentParams) -> Parts:
    """What free runs of the same load with other seeds find."""
    played = [waits_us(build_scene(params, seed), lambda: None) for seed in PRACTICE_SEEDS]
    return min(played[0], key=lambda parts: sum(waits[parts] for waits in played))


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves what is bought today. misconception: all the gigabytes that the budget buys. expert: plays the same
    load with other seeds for every way to spend it, and takes the best.
    """
    params = scene_of(prepared.visible)
    ways = all_ways(params)
    chosen = {"misconception": _most_gigabytes(params), "expert": best_in_practice(params)}
    bought: dict[str, dict[str, int]] = {"naive": {}}
    bought |= {who: vars(ways[parts]) for who, parts in chosen.items()}
    return {
        who: Submission(
            params=values, prediction={"hit_rate": _expected_hit_rate(params.model_copy(update=values))}
        )
        for who, values in bought.items()
    }


def scene_of(visible: Mapping[str, Any]) -> AgentParams:
    return shown_load(visible, SHOWN)


def _expected_hit_rate(params: AgentParams) -> float:
    scene = build_scene(params, PRACTICE_SEEDS[0])
    return round(hit_rate(scene.workload, simulate_cluster(scene.workload, scene.setup)), 3)
