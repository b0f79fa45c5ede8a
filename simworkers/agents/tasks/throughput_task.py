"""The task `best-throughput`: most output tokens per GPU-second at the floor, from a fixed number of GPUs.

Who divides the GPUs, routes and schedules decides how many sessions at once keep the floor. Many small replicas leave
each little KV beside its copy of the weights; few large ones pay for links. Which is best depends on model and links,
so no division answers all instances. The cluster of the instance is routed well today, as the lesson says, and divided
badly, into small replicas. Its floor is near the pace that one session alone has today, as fast tiers promise: it ends
the search, since all sessions at once break it in every division.

The sessions are those of the trace that the lab's author chose, where there is one and it tells people apart; else they
are drawn.
"""

from collections.abc import Sequence
from typing import Any

from simworkers.agents.compare import search_loads
from simworkers.agents.measure import meets_goal
from simworkers.agents.params import AgentParams
from simworkers.agents.room import HBM_PERCENT
from simworkers.agents.scene import build_scene
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.session_params import SYNTHETIC
from simworkers.agents.tasks.anchors import (
    BASELINE_GPUS,
    BASELINE_POLICY,
    searched_rate,
    service_of,
    splits,
)
from simworkers.agents.tasks.candidates import (
    Candidate,
    draw_between_anchors,
    draw_one,
    show,
    shown_load,
)
from simworkers.agents.tasks.choices import one_of
from simworkers.agents.tasks.recorded_load import RecordedLoad, default_load
from simworkers.hardware import GB
from simworkers.hardware import GPUS as GPU_PROFILES
from simworkers.jobs import InvalidParameter, PreparedInstance, Progress, Submission
from simworkers.rng import Stream

TASK = "best-throughput"
DRAWS = 60
RECORDED_DRAWS = 12  # before the sessions are drawn instead: recorded ones take seconds
PRACTICE_SEEDS = (1,)
LEAST_DISTANCE = 1.2  # bound ÷ baseline
EXPERT_REACHES = 0.8  # of the way from the baseline to the bound …
EXPERT_PASSES = 1.15  # … and at most: a bound that is left far behind is none
MISLED_REACHES = 0.2  # at most
LESSON_REACHES = 0.05  # less than this, which is a band of the rubric
LESSON_CAPS = (256, 512, 1024)  # tokens: "cap long fresh prefills" names none
GPUS = 16
SESSIONS = 40  # many and short: more than any division serves at the floor
FLOORS_PERCENT = (92, 93, 94)  # of the interactivity that one session alone has on the cluster of today
Cluster = tuple[str, str, str, int]  # model, GPU, link, µs to start a collective
# Models whose small replicas hold KV enough and would wait for links if they were larger.
SMALL_ONES: tuple[Cluster, ...] = (
    ("qwen3-30b-a3b", "h200", "network", 28),
    ("qwen3-30b-a3b", "h200", "network", 30),
    ("qwen3-30b-a3b", "b200", "network", 16),
)
# Such as lose it beside their weights.
LARGE_ONES: tuple[Cluster, ...] = (
    ("qwen3-32b", "b200", "nvlink", 8),
    ("qwen3-32b", "h200", "nvlink", 8),
    ("llama-3.1-70b", "h200", "nvlink", 8),
    ("llama-3.1-70b", "b200", "nvlink", 8),
)
# Such as do so with contexts as long as recorded ones, of which the others hardly hold one; on NVLink large replicas
# would keep the floor with all sessions that a trace has.
LONG_ONES: tuple[Cluster, ...] = (
    ("qwen3-32b", "h200", "network", 20),
    ("qwen3-32b", "h200", "network", 40),
    ("llama-3.1-70b", "b200", "network", 40),
)
KINDS = (
    (SMALL_ONES, SMALL_ONES),
    (LARGE_ONES, LONG_ONES),
)  # where sessions are drawn, where they are recorded
SHOWN = (
    "trace",
    "model",
    "gpu",
    "link",
    "collective_us",
    "gpu_budget",
    "sessions",
    "turns_percent",
    "think_at_most_s",
    "start_gap_ms",
    "floor_tokens_per_s",
    "policy",
    "replicas",
    "tensor_parallel",
    "pipeline_parallel",
)


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves. Which kind of replica is right is drawn first, each as likely."""
    where_drawn, where_recorded = one_of(Stream(seed, TASK, "kind"), KINDS)
    recorded = default_load()
    if recorded and (found := _on_recorded(seed, progress, where_recorded, recorded)):
        return found
    return draw_between_anchors(
        seed,
        progress,
        task=TASK,
        draws=DRAWS,
        draw_params=lambda stream: _draw_params(stream, where_drawn),
        describe=_describe,
        serves=_serves,
    )


def _on_recorded(
    seed: int, progress: Progress, clusters: Sequence[Cluster], load: RecordedLoad
) -> PreparedInstance | None:
    """An instance on recorded sessions; None where no replica of today holds them, or they tell nobody apart."""
    fitting = [one for one in clusters if load.fits(model=one[0], gpu=one[1], gpus=BASELINE_GPUS)]
    if not fitting:
        return None

    def draw(stream: Stream) -> PreparedInstance | None:
        progress(0, 1)
        sessions = load.sessions - stream.integer(load.sessions // 3 + 1)
        params = _draw_params(stream, fitting, trace=load.trace, sessions=sessions, sessions_at_once=sessions)
        if _runs_out(params, 0):  # soon told, and recorded sessions hang on no seed
            return None
        return draw_one(stream, progress, lambda _: params, _describe, _serves)

    found = (draw(Stream(seed, TASK, "recorded", number)) for number in range(RECORDED_DRAWS))
    return next((one for one in found if one), None)


def _serves(candidate: Candidate) -> bool:
    """The floor binds; the expert's division comes near the bound; the lesson and pinned sessions on the cluster of
    today do not."""
    anchors, today = candidate.anchors, candidate.params
    if not 0 < anchors.low * LEAST_DISTANCE <= anchors.high or _runs_out(today, candidate.seed):
        return False

    def reached(choice: dict[str, Any]) -> float:
        chosen = candidate.chosen(choice)
        return candidate.reached(searched_rate(chosen, candidate.seed, chosen.policy))

    if reached(_misled()) > MISLED_REACHES or any(reached(one) >= LESSON_REACHES for one in lessons()):
        return False
    expert = _best_in_practice(candidate.visible)
    return EXPERT_REACHES <= reached(expert) <= EXPERT_PASSES and not serves_all(
        candidate.chosen(expert), candidate.seed
    )


def serves_all(params: AgentParams, seed: int, is_endless: bool = False) -> bool:
    """All sessions at once keep the floor, so that not the floor but their number ends the search."""
    try:
        service = service_of(params, seed, is_endless)
    except InvalidParameter:  # the model does not fit
        return False
    return meets_goal(service, len(service.ttft_us), params.floor_tokens_per_s)


def _runs_out(today: AgentParams, seed: int) -> bool:
    """Whether sessions run out before the floor breaks: on the cluster of today, or in a division with endless KV."""
    divided = (today.model_copy(update={**split, "policy": "sticky"}) for split in splits(today))
    return serves_all(today, seed) or any(serves_all(one, seed, is_endless=True) for one in divided)


def _draw_params(stream: Stream, clusters: Sequence[Cluster], **load: Any) -> AgentParams:
    """load: what is said of the sessions, where they are recorded."""
    model, gpu, link, collective_us = one_of(stream, clusters)
    values: dict[str, Any] = {
        "model": model,
        "gpu": gpu,
        "link": link,
        "collective_us": collective_us,
        "gpu_budget": GPUS,
        "sessions": SESSIONS,
        "sessions_at_once": SESSIONS,
        "turns_percent": 7 + stream.integer(2),
        "think_at_most_s": 2 + stream.integer(4),
        "start_gap_ms": 100 + 50 * stream.integer(5),
        "policy": BASELINE_POLICY,
        "search_load": True,
        "scored_as": "throughput",
        "compare_policies": False,
    }
    today = {"tensor_parallel": BASELINE_GPUS, "replicas": GPUS // BASELINE_GPUS}
    return _at_a_floor(AgentParams.model_validate(values | today | load), one_of(stream, FLOORS_PERCENT))


def _at_a_floor(params: AgentParams, percent: int) -> AgentParams:
    """Of the interactivity that one session alone has on the cluster of today, in practice."""
    lone = service_of(params.model_copy(update={"sessions_at_once": 1}), PRACTICE_SEEDS[0])
    floor = int(lone.interactivity_p10 * percent / 10) / 10
    return params.model_copy(update={"floor_tokens_per_s": floor})


def _describe(params: AgentParams) -> dict[str, Any]:
    model, gpu = MODELS[params.model], GPU_PROFILES[params.gpu]
    shown = SHOWN if params.trace == SYNTHETIC else [name for name in SHOWN if name != "turns_percent"]
    return show(params, shown) | {
        "weights_gb": model.weights_bytes / GB,
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "kv_heads": model.kv_shards,
        "hbm_gb_of_a_gpu": gpu.hbm_bytes / GB,
        "hbm_percent_for_weights_and_kv": HBM_PERCENT,
        "practice_seeds": list(PRACTICE_SEEDS),
    }


def _scene(visible: dict[str, Any]) -> AgentParams:
    """The load that is shown, as a learner can run it."""
    shown = [name for name in SHOWN if name in visible]
    return shown_load(visible, shown, sessions_at_once=visible["sessions"], compare_policies=False)


def _misled() -> dict[str, Any]:
    """Sessions are pinned to the replicas as they are, whatever these hold."""
    return {"policy": "consistent_hash"}


def lessons() -> list[dict[str, Any]]:
    """What the section on sessions says of routing and prefills, without a thought about this cluster."""
    routed = {"policy": BASELINE_POLICY}
    return [routed, *(routed | {"prefill_cap_tokens": cap} for cap in LESSON_CAPS)]


def _best_in_practice(visible: dict[str, Any]) -> dict[str, Any]:
    """The division that does best with spilling, then the policy that does best with it; each in free runs."""
    scene = _scene(visible)

    def rate(choice: dict[str, Any]) -> float:
        try:
            tried = scene.model_copy(update=choice)
            return sum(searched_rate(tried, seed, choice["policy"]) for seed in PRACTICE_SEEDS)
        except InvalidParameter:
            return 0.0

    best = max(({**split, "policy": "sticky_spill"} for split in splits(scene)), key=rate)
    return max(({**best, "policy": policy} for policy in ("sticky_spill", "prefix_else_balance")), key=rate)


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves the cluster as it is. misconception: pins sessions to replicas by hash, and thinks no further. expert:
    plays the same load, with other seeds where it is drawn, dividing the GPUs in all ways, and takes the best.
    """
    visible = prepared.visible
    expert = _best_in_practice(visible)
    played = _scene(visible).model_copy(update=expert | {"search_load": True, "scored_as": "throughput"})
    found = search_loads(build_scene(played, PRACTICE_SEEDS[0]), lambda: None).own
    rate = round(found.best.tokens_per_gpu_s, 1) if found.best else 0.0
    prediction = {"sessions_at_once": found.load, "tokens_per_gpu_s": rate}
    return {
        who: Submission(params=params, prediction=prediction)
        for who, params in (("naive", {}), ("misconception", _misled()), ("expert", expert))
    }
