"""The explore sweep: what policies, KV, load and tiers do to each other, measured once for everyone.

A declarative grid; every point plays the same sessions and measures them as a run would, without a run's comparisons
and checks. The sessions are drawn once for each way of counting answers, the ceiling with them.
"""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

from simworkers.agents.measure import ceiling
from simworkers.agents.params import AgentParams
from simworkers.agents.scalars import scalars
from simworkers.agents.scene import Scene, build_scene, build_setup
from simworkers.agents.serving.cluster import simulate_cluster
from simworkers.agents.serving.workload import one_after_another
from simworkers.agents.simulate import LAB
from simworkers.jobs import Progress, SweepData
from simworkers.sweeping import tabulate
from simworkers.threads import torch_threads

SEED = 0
# What differs from the lab's defaults, at every point.
SCENE: dict[str, Any] = {"sessions": 24, "turns_percent": 25, "compare_policies": False}
GRID: dict[str, list[Any]] = {
    "policy": ["round_robin", "least_queue", "consistent_hash", "longest_prefix", "sticky", "sticky_spill"],
    # From room for twice the longest prompt to all that this machine's HBM has left beside the weights.
    "kv_blocks": [4000, 5500, 7000, 9000, 11_217],
    "sessions_at_once": [6, 12, 24],
    "host_gb": [0, 200],
    "cache_outputs": [False, True],
}
LINES = "policy"
MEASURED = (
    "hit_rate",
    "hbm_hit_rate",
    "hit_rate_ceiling",
    "uncached_tokens",
    "load_imbalance",
    "ttft_p50_us",
    "ttft_p90_us",
    "tpot_mean_us",
    "interactivity_p10",
    "keeps_floor",
    "tokens_per_gpu_s",
    "goal_tokens_per_gpu_s",
    "usd_per_million",
    "moves",
    "preemptions",
    "share_kv_capacity",
    "share_queue",
    "busy_share",
)


def sweep(progress: Progress) -> SweepData:
    """The whole grid, the last axis fastest."""
    points = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    measured, sessions_of = [], cache(_sessions)
    with torch_threads(1):
        for done, point in enumerate(points):
            measured.append(_measure(point, sessions_of))
            progress(done + 1, len(points))
    return tabulate(LAB, SEED, AgentParams.model_validate(SCENE), GRID, LINES, MEASURED, measured)


def _sessions(cache_outputs: bool) -> tuple[Scene, float]:
    """The sessions, and the ceiling of their hit rate."""
    scene = build_scene(AgentParams.model_validate(SCENE | {"cache_outputs": cache_outputs}), SEED)
    return scene, ceiling(one_after_another(scene.workload, scene.trace))


def _measure(point: dict[str, Any], sessions_of: Callable[[bool], tuple[Scene, float]]) -> dict[str, float]:
    params = AgentParams.model_validate(SCENE | point)
    sessions, ceiling_rate = sessions_of(params.cache_outputs)
    setup = build_setup(params, sessions.workload.block_size, SEED)
    scene = Scene(params, sessions.trace, sessions.workload, setup, sessions.gpus)
    found = scalars(scene, simulate_cluster(scene.workload, setup), ceiling_rate, None)
    return {name: found[name] for name in MEASURED}
