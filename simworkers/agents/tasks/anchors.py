"""What a graded run is scored between: other ways to serve the same sessions, played beside it.

None of them depends on what a learner may set: whatever is open is put back to its default, or to what is said here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from simworkers.agents.compare import endless_blocks, play
from simworkers.agents.load_search import search_load
from simworkers.agents.measure import Service, measure_service, meets_goal, waited_tokens_per_s
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import Scene, build_scene, build_setup
from simworkers.agents.serving.cluster import simulate_cluster
from simworkers.agents.session_params import SYNTHETIC
from simworkers.agents.tasks.open_parameters import OPEN, with_defaults
from simworkers.jobs import InvalidParameter

Step = Callable[[], None]
SPLITS = (1, 2, 4, 8)  # GPUs of a replica that are tried for the bound
BASELINE_GPUS = 2  # of a replica
BASELINE_POLICY = "sticky_spill"  # what the lesson says of routing earns nothing by itself
OF_SESSIONS = (  # parameters that sessions are built from
    "trace",
    "sessions",
    "turns_percent",
    "context_percent",
    "shared_prefix_tokens",
    "think_percent",
    "think_at_most_s",
    "cache_outputs",
    "full_hit_recompute",
    "partial_blocks",
    "clip_oversize",
)
# Such as make no difference to recorded ones.
OF_DRAWN_SESSIONS = ("turns_percent", "context_percent", "shared_prefix_tokens")
# Parameters that say what is made of a run, not what happens in it.
OF_RESULTS = ("scored_as", "search_load", "compare_policies", "compare_caps", "compare_tiers", "gpu_hour_usd")
COUNT = {"none": 0, "throughput": 5, "survival": 2, "routing": 2}  # steps, at most


@dataclass(frozen=True)
class Anchors:
    """Values of the metric that is scored. Zeros where nothing is scored."""

    low: float = 0.0
    high: float = 0.0


def find_anchors(params: AgentParams, seed: int, step: Step) -> Anchors:
    """step: called after every play or search. InvalidParameter where the GPUs allow no bound."""
    if params.scored_as == "none":
        return Anchors()
    locked = with_defaults(params, OPEN[params.scored_as])
    ways = {"throughput": _throughput, "survival": _survival, "routing": _routing}
    return ways[params.scored_as](locked, seed, step)


def splits(params: AgentParams) -> Iterator[dict[str, int]]:
    """Ways to divide the GPUs that there are into equal replicas without pipelines."""
    gpus = params.gpu_budget or params.replicas * params.tensor_parallel * params.pipeline_parallel
    for size in SPLITS:
        if gpus % size == 0 and 1 <= gpus // size <= 16:
            yield {"tensor_parallel": size, "replicas": gpus // size, "pipeline_parallel": 1}


def _throughput(locked: AgentParams, seed: int, step: Step) -> Anchors:
    """Searched output tokens per GPU-second: replicas of two GPUs, sessions stay until theirs saturates; the best split
    with endless KV."""
    low, bounds = 0.0, list[float]()
    for split in splits(locked):
        divided = locked.model_copy(update=split)
        try:
            bounds.append(searched_rate(divided, seed, "sticky", is_endless=True))
        except InvalidParameter:  # the model does not fit
            continue
        step()
        if split["tensor_parallel"] == BASELINE_GPUS:
            low = searched_rate(divided, seed, BASELINE_POLICY)
            step()
    if not bounds:
        raise InvalidParameter(
            f"scored_as: the bound has up to {SPLITS[-1]} GPUs a replica, and so many do not hold the model"
        )
    return Anchors(low=low, high=max(bounds))


def _survival(locked: AgentParams, seed: int, step: Step) -> Anchors:
    """Mean TTFT: sticky until a replica saturates, without memory beside HBM; nothing happens, and no KV is lost."""
    spilling = locked.model_copy(update={"policy": "sticky_spill"})
    low = mean_ttft_us(spilling, seed)
    step()
    high = mean_ttft_us(spilling.model_copy(update={"incident": "none"}), seed, is_endless=True)
    step()
    return Anchors(low=low, high=high)


def _routing(locked: AgentParams, seed: int, step: Step) -> Anchors:
    """Output tokens per second of waiting: fewest sessions, whatever is cached; nothing happens, and no KV is lost."""
    nothing = dict.fromkeys(OPEN["routing"], 0.0)
    low = waited_rate(locked.model_copy(update=nothing), seed)
    step()
    calm = locked.model_copy(update={"policy": "sticky_spill", "incident": "none"})
    high = waited_rate(calm, seed, is_endless=True)
    step()
    return Anchors(low=low, high=high)


def _scene(params: AgentParams, seed: int) -> Scene:
    """As `build_scene` does, but sessions that many ways serve are built once."""
    of_sessions = {name: getattr(params, name) for name in OF_SESSIONS}
    drawn_from = seed if params.trace == SYNTHETIC else 0
    built = _sessions(AgentParams(**of_sessions, compare_policies=False), drawn_from)
    setup = build_setup(params, built.workload.block_size, seed)
    gpus = params.replicas * params.tensor_parallel * params.pipeline_parallel
    return Scene(params, built.trace, built.workload, setup, gpus)


@lru_cache(maxsize=8)
def _sessions(params: AgentParams, seed: int) -> Scene:
    return build_scene(params, seed)


def _played(params: AgentParams, seed: int, *unread: str) -> tuple[AgentParams, int]:
    """Parameters and seed without what makes no difference, so that nothing is played twice. unread: such parameters
    besides those that make none anywhere."""
    if params.trace == SYNTHETIC:
        return with_defaults(params, (*OF_RESULTS, *unread)), seed
    # Recorded sessions hang on no seed, but one policy draws.
    played = with_defaults(params, (*OF_RESULTS, *OF_DRAWN_SESSIONS, *unread))
    return played, seed if params.policy == "random" else 0


def searched_rate(params: AgentParams, seed: int, policy: str, is_endless: bool = False) -> float:
    """Output tokens per GPU-second at the largest load that keeps the floor; 0 where none does."""
    routed = params.model_copy(update={"policy": policy})
    return _searched_rate(*_played(routed, seed, "sessions_at_once"), is_endless)


@lru_cache(maxsize=1024)
def _searched_rate(params: AgentParams, seed: int, is_endless: bool) -> float:
    scene = _scene(params, seed)
    kv_blocks = endless_blocks(scene) if is_endless else None
    requests, floor = len(scene.workload.turns), params.floor_tokens_per_s
    found = search_load(
        lambda load: play(scene, params.policy, load, kv_blocks)[1],
        lambda service: meets_goal(service, requests, floor),
        len(scene.workload.begins),
    )
    return found.best.tokens_per_gpu_s if found.best else 0.0


def service_of(params: AgentParams, seed: int, is_endless: bool = False) -> Service:
    """What users get."""
    return _service_of(*_played(params, seed, "floor_tokens_per_s"), is_endless)


@lru_cache(maxsize=64)
def _service_of(params: AgentParams, seed: int, is_endless: bool) -> Service:
    scene = _scene(params, seed)
    setup = replace(scene.setup, kv_blocks=endless_blocks(scene)) if is_endless else scene.setup
    outcome = simulate_cluster(scene.workload, setup)
    return measure_service(scene.workload, outcome, scene.gpus, setup.horizon_us)


def mean_ttft_us(params: AgentParams, seed: int, is_endless: bool = False) -> float:
    """Of all requests."""
    return service_of(params, seed, is_endless).ttft_mean_us


@lru_cache(maxsize=1024)
def waited_rate(params: AgentParams, seed: int, is_endless: bool = False) -> float:
    """Output tokens ÷ seconds that all requests take."""
    scene = _scene(params, seed)
    setup = replace(scene.setup, kv_blocks=endless_blocks(scene)) if is_endless else scene.setup
    return waited_tokens_per_s(simulate_cluster(scene.workload, setup))
