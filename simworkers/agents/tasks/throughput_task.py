"""The task `best-throughput`: most output tokens per GPU-second at the floor, from a fixed number of GPUs.

Who divides the GPUs, routes and schedules decides how many sessions at once keep the floor. Many small replicas leave
each little KV beside its copy of the weights; few large ones pay for links. Which is best depends on model and links,
so no division answers all instances. The cluster of the instance is routed well today, as the lesson says, and divided
badly, into small replicas.

The sessions are those of the trace that the lab's author chose, where there is one and it tells people apart; else they
are drawn.
"""

from collections.abc import Sequence
from typing import Any

from simworkers.agents.params import AgentParams
from simworkers.agents.room import HBM_PERCENT
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.session_params import SYNTHETIC
from simworkers.agents.tasks.anchors import BASELINE_GPUS, BASELINE_POLICY, searched_rate, splits
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
EXPERT_REACHES = 0.8  # of the way from the baseline to the bound
MISLED_REACHES = 0.2  # at most
LESSON_REACHES = 0.05  # less than this, which is a band of the rubric
LESSON_CAPS = (256, 512, 1024)  # tokens: "cap long fresh prefills" names none
GPUS = 16
Cluster = tuple[str, str, str, int, float]  # model, GPU, link, µs to start a collective, floor in tokens/s
# Models whose small replicas hold KV enough and would wait for links if they were larger.
SMALL_ONES: tuple[Cluster, ...] = (
    ("qwen3-30b-a3b", "h200", "network", 40, 50.0),
    ("qwen3-30b-a3b", "b200", "network", 40, 60.0),
)
# Such as lose it beside their weights.
LARGE_ONES: tuple[Cluster, ...] = (
    ("qwen3-32b", "b200", "network", 40, 25.0),
    ("qwen3-32b", "h100", "network", 20, 25.0),
    ("llama-3.1-70b", "h200", "network", 20, 15.0),
    ("llama-3.1-70b", "h200", "nvlink", 8, 25.0),
)
# Such as do so with contexts as long as recorded ones, of which the others hardly hold one.
LONG_ONES: tuple[Cluster, ...] = (
    ("qwen3-32b", "h200", "network", 20, 20.0),
    ("qwen3-32b", "h200", "nvlink", 8, 25.0),
    ("llama-3.1-70b", "b200", "network", 20, 15.0),
    ("llama-3.1-70b", "b200", "nvlink", 8, 25.0),
)
KINDS = ((SMALL_ONES, ()), (LARGE_ONES, LONG_ONES))  # and what is added where sessions are recorded
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
    clusters, where_recorded = one_of(Stream(seed, TASK, "kind"), KINDS)
    recorded = default_load()
    if recorded and (found := _on_recorded(seed, progress, (*clusters, *where_recorded), recorded)):
        return found
    return draw_between_anchors(
        seed,
        progress,
        task=TASK,
        draws=DRAWS,
        draw_params=lambda stream: _draw_params(stream, clusters),
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

    def draw_params(stream: Stream) -> AgentParams:
        params = _draw_params(stream, fitting)
        sessions = load.sessions - stream.integer(load.sessions // 3 + 1)
        return params.model_copy(
            update={"trace": load.trace, "sessions": sessions, "sessions_at_once": sessions}
        )

    for draw in range(RECORDED_DRAWS):
        stream = Stream(seed, TASK, "recorded", draw)
        if found := draw_one(stream, progress, draw_params, _describe, _serves):
            return found
    return None


def _serves(candidate: Candidate) -> bool:
    """The expert's division comes near the bound; the lesson and pinned sessions on the cluster of today do not."""
    anchors = candidate.anchors
    if not 0 < anchors.low * LEAST_DISTANCE <= anchors.high:
        return False

    def reached(choice: dict[str, Any]) -> float:
        chosen = candidate.chosen(choice)
        return candidate.reached(searched_rate(chosen, candidate.seed, chosen.policy))

    if reached(_misled()) > MISLED_REACHES or any(reached(one) >= LESSON_REACHES for one in lessons()):
        return False
    return reached(_best_in_practice(candidate.visible)) >= EXPERT_REACHES


def _draw_params(stream: Stream, clusters: Sequence[Cluster]) -> AgentParams:
    model, gpu, link, collective_us, floor = one_of(stream, clusters)
    values: dict[str, Any] = {
        "model": model,
        "gpu": gpu,
        "link": link,
        "collective_us": collective_us,
        "gpu_budget": GPUS,
        "floor_tokens_per_s": floor,
        "sessions": 16,
        "sessions_at_once": 16,
        "turns_percent": 12 + 2 * stream.integer(4),
        "think_at_most_s": 3 + stream.integer(6),
        "start_gap_ms": 250 + 250 * stream.integer(4),
        "policy": BASELINE_POLICY,
        "search_load": True,
        "scored_as": "throughput",
        "compare_policies": False,
    }
    today = {"tensor_parallel": BASELINE_GPUS, "replicas": GPUS // BASELINE_GPUS}
    return AgentParams.model_validate(values | today)


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
    chosen = _scene(visible).model_copy(update=expert)
    rate = round(searched_rate(chosen, PRACTICE_SEEDS[0], chosen.policy), 1)
    prediction = {"sessions_at_once": visible["sessions"], "tokens_per_gpu_s": rate}
    return {
        who: Submission(params=params, prediction=prediction)
        for who, params in (("naive", {}), ("misconception", _misled()), ("expert", expert))
    }
