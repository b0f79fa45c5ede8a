"""The task `cap-prefills`: let long fresh prompts wait a little, so that those who decode keep their floor.

A step that reads a prompt's chunk takes longer, and everyone who decodes beside it waits. A cap on prefill tokens
shortens such steps and makes more of them: too high and the floor breaks, too low and prompts wait for nothing. The
floor of an instance is drawn so that no cap breaks it and the most careful cap lets the first token wait far longer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from simworkers.agents.measure import Service
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import Scene, build_scene
from simworkers.agents.serving.cost import FS_PER_US, Batch
from simworkers.agents.tasks.candidates import shown_load
from simworkers.agents.tasks.choices import one_of
from simworkers.agents.tasks.prefill_caps import CAPS, keeping, serve_by_cap
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.rng import Stream

CLUSTERS = (
    ("qwen3-32b", "h200", 4),
    ("qwen3-32b", "h100", 8),
    ("llama-3.1-70b", "h200", 8),
    ("llama-3.1-70b", "b200", 4),
)
POLICIES = ("sticky", "sticky_spill", "least_tokens")
WANTED = (128, 256, 512)  # the best cap of the instances, each as likely
SHOWN = (
    "sessions",
    "sessions_at_once",
    "turns_percent",
    "context_percent",
    "think_percent",
    "model",
    "gpu",
    "replicas",
    "tensor_parallel",
    "policy",
    "token_budget",
    "prefill_cap_tokens",
    "max_requests",
    "floor_tokens_per_s",
    "horizon_s",
    "compare_policies",
    "compare_caps",
)
PRACTICE_SEEDS = (1, 2)
DRAWS = 200
FLOOR_PERCENT = 96  # of the interactivity that the wanted cap gives in practice
BROKEN_BY = 1.03  # floor ÷ interactivity without a cap, at least
RESERVE = 1.02  # interactivity in practice ÷ floor that the expert wants to see
LEAST_DISTANCE = 1.2  # TTFT under the most careful cap ÷ the best
EXPERT_REACHES = 0.85


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves. The best cap is drawn first, so that none is best in most of them."""
    wanted = one_of(Stream(seed, "cap-prefills"), WANTED)
    return draw_until_it_serves(seed, "cap-prefills", lambda stream: _draw(stream, wanted, progress), DRAWS)


def _draw(stream: Stream, wanted: int, progress: Progress) -> PreparedInstance | None:
    """wanted: the cap that is to be best. Caps that decide most are played first, since most draws are in vain."""
    params = _draw_params(stream, wanted)

    def play(scene: Scene, caps: Iterable[int] = CAPS) -> dict[int, Service]:
        return serve_by_cap(scene, lambda: progress(0, 1), caps)

    deciding = (wanted, 2 * wanted, 0)
    days = [build_scene(params, seed) for seed in PRACTICE_SEEDS]
    first = [play(day, deciding) for day in days]
    floor = int(min(served[wanted].interactivity_p10 for served in first) * FLOOR_PERCENT / 10) / 10
    params, seed = params.model_copy(update={"floor_tokens_per_s": floor}), stream.integer(SEEDS)
    if any(served[0].interactivity_p10 * BROKEN_BY > floor for served in first):
        return None
    if expert_cap(params, first) != wanted:
        return None
    others = [cap for cap in CAPS if cap not in deciding]
    practice = [served | play(day, others) for served, day in zip(first, days, strict=True)]
    if expert_cap(params, practice) != wanted:
        return None
    scene = build_scene(params, seed)
    by_cap = play(scene)
    if not _serves(by_cap, floor, len(scene.workload.turns), wanted):
        return None
    return PreparedInstance(
        params=params.model_dump(), visible=_describe(params, scene, practice[0]), seed=seed
    )


def _serves(by_cap: Mapping[int, Service], floor: float, requests: int, expert: int) -> bool:
    """Without a cap the floor breaks clearly, so does it under half the budget, and the expert comes near the best."""
    kept = keeping(by_cap, floor, requests)
    if by_cap[0].interactivity_p10 * BROKEN_BY > floor or CAPS[-2] in kept or expert not in kept:
        return False
    careful, best = by_cap[CAPS[0]].ttft_mean_us, min(by_cap[cap].ttft_mean_us for cap in kept)
    if careful < LEAST_DISTANCE * best:
        return False
    return careful - by_cap[expert].ttft_mean_us >= EXPERT_REACHES * (careful - best)


def _draw_params(stream: Stream, wanted: int) -> AgentParams:
    """A large cap is best where many prompts are read beside those who decode, which few scenes have."""
    is_crowded = wanted == WANTED[-1]
    model, gpu, tensor_parallel = one_of(stream, CLUSTERS)
    at_once = (16 if is_crowded else 12) + stream.integer(9)
    values: dict[str, Any] = {
        "sessions": 30,
        "sessions_at_once": at_once,
        "turns_percent": 10,
        "context_percent": 65 + stream.integer(36),
        "think_percent": 10 + stream.integer(31),
        "model": model,
        "gpu": gpu,
        "replicas": 2,
        "tensor_parallel": tensor_parallel,
        "policy": one_of(stream, POLICIES[-1:] if is_crowded else POLICIES),
        "token_budget": 8192,
        "prefill_cap_tokens": 0,
        "horizon_s": 7200,
        "compare_policies": False,
        "compare_caps": True,
    }
    return AgentParams.model_validate(values)


def _describe(params: AgentParams, scene: Scene, practice: Mapping[int, Service]) -> dict[str, Any]:
    """The load, what a step takes, and what users get today on another day."""
    cost, today = scene.setup.cost, practice[0]

    def step_us(prefill_tokens: int) -> int:
        batch = Batch(decodes=4, context_tokens=4 * 100_000, prefill_tokens=prefill_tokens)
        return cost.step(batch).first // FS_PER_US

    return params.model_dump(include=set(SHOWN)) | {
        "step_us_of_4_decoding": step_us(0),
        "step_us_with_1000_prefill_tokens": step_us(1000),
        "step_us_with_8000_prefill_tokens": step_us(8000),
        "today_interactivity_p10": round(today.interactivity_p10, 1),
        "today_ttft_mean_us": round(today.ttft_mean_us),
        "careful_ttft_mean_us": round(practice[CAPS[0]].ttft_mean_us),
    }


def in_practice(params: AgentParams) -> list[dict[int, Service]]:
    """What free runs of the same load with other seeds give, cap by cap."""
    return [serve_by_cap(build_scene(params, seed), lambda: None) for seed in PRACTICE_SEEDS]


def expert_cap(params: AgentParams, practice: list[dict[int, Service]]) -> int | None:
    """The cap with the least wait among those played that keep the floor in every practice run, with a reserve."""
    floor = params.floor_tokens_per_s * RESERVE
    safe = [cap for cap in practice[0] if all(served[cap].interactivity_p10 >= floor for served in practice)]
    return min(safe, key=lambda cap: sum(served[cap].ttft_mean_us for served in practice), default=None)


def scene_of(visible: Mapping[str, Any]) -> AgentParams:
    return shown_load(visible, SHOWN)


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves the scheduler as it is. misconception: protects those who decode as well as can be. half: halves what
    a step may read. expert: plays the same load with other seeds for every cap, and takes the one that keeps the floor
    with the least wait.
    """
    params = scene_of(prepared.visible)
    practice = in_practice(params)
    expert = expert_cap(params, practice)
    assert expert is not None, "the instance was drawn so that there is one"
    caps = {"naive": 0, "misconception": CAPS[0], "half": CAPS[-2], "expert": expert}
    return {
        who: Submission(
            params={"prefill_cap_tokens": cap} if cap else {},
            prediction={"interactivity_p10": round(practice[0][cap].interactivity_p10, 1)},
        )
        for who, cap in caps.items()
    }
