"""A memory budget for KV that HBM cannot hold: what tiers cost, the ways to spend it, and what requests wait then."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from simworkers.agents.measure import measure_service
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import Scene, build_setup
from simworkers.agents.serving.cluster import simulate_cluster

PARTS = 2  # of the budget, each for host memory, for the pool, or for neither
NEITHER, ALL_HOST, ALL_POOL = PURE = (0, 0), (PARTS, 0), (0, PARTS)
ROUNDING = 1e-9


Parts = tuple[int, int]  # of the budget: for host memory, for the pool


@dataclass(frozen=True)
class Way:
    """Sizes of both tiers in GB: host memory of each replica, and the pool."""

    host_gb: int
    pool_gb: int


def memory_usd(params: AgentParams) -> float:
    host_gb = params.replicas * params.host_gb
    return host_gb * params.host_usd_per_gb + params.pool_gb * params.pool_usd_per_gb


def is_within(params: AgentParams) -> bool:
    """Without a budget everything is."""
    budget = params.memory_budget_usd
    return not budget or memory_usd(params) <= budget * (1 + ROUNDING)


def all_ways(params: AgentParams) -> dict[Parts, Way]:
    """(parts for host memory, parts for the pool) → what they buy, in whole GB."""
    part = params.memory_budget_usd / PARTS

    def bought(parts: int, usd_per_gb: float) -> int:
        return int(parts * part / usd_per_gb + ROUNDING)

    return {
        (host, pool): Way(
            bought(host, params.host_usd_per_gb * params.replicas),
            bought(pool, params.pool_usd_per_gb),
        )
        for host in range(PARTS + 1)
        for pool in range(PARTS + 1 - host)
    }


def mean_ttft_us(scene: Scene, way: Way) -> float:
    """Of the scene's sessions with other tiers."""
    params = scene.params.model_copy(update={"host_gb": way.host_gb, "pool_gb": way.pool_gb})
    setup = replace(scene.setup, tiers=build_setup(params, scene.workload.block_size, scene.setup.seed).tiers)
    outcome = simulate_cluster(scene.workload, setup, scene.on_turn)
    return measure_service(scene.workload, outcome, scene.gpus, setup.horizon_us).ttft_mean_us


def waits_us(
    scene: Scene, step: Callable[[], None], only: Iterable[Parts] | None = None
) -> dict[Parts, float]:
    """Mean TTFT by parts, for every way or some. step: called after each simulation."""
    ways, found = all_ways(scene.params), {}
    for parts in ways if only is None else only:
        found[parts] = mean_ttft_us(scene, ways[parts])
        step()
    return found


def runner_up(waits_us: Mapping[Parts, float]) -> float:
    """What the second best of the three decisions gives that do not mix."""
    return sorted(waits_us[parts] for parts in PURE)[1]
