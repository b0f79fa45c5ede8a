"""The task `route-by-score`: weights of the score by which a router ranks replicas, judged on sessions nobody has seen.

Cached tokens alone send every session to the replica that had the first one, since all contexts begin with the same
system prompt. The same replica alone never fills one that comes back from maintenance. Loads alone compute every
context again. The weights have to carry over: practice runs have other sessions than the graded one. How much the
router makes of loads, before their weights, is drawn first: only what a load weighs beside a cache matters, and weights
that were right for one router are a tenth or ten times of it for another.
"""

from typing import Any

from simworkers.agents.params import AgentParams
from simworkers.agents.tasks.anchors import waited_rate
from simworkers.agents.tasks.candidates import (
    INCIDENT,
    LOAD,
    Candidate,
    draw_between_anchors,
    show,
    shown_load,
)
from simworkers.agents.tasks.choices import one_of
from simworkers.agents.tasks.open_parameters import ROUTING
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.rng import Stream

TASK = "route-by-score"
DRAWS = 60
PRACTICE_SEEDS = (1, 2)
LEAST_DISTANCE = 1.2  # bound ÷ baseline
EXPERT_REACHES = 0.6  # of the way from the baseline to the bound, where nothing is ever taken away
MISLED_REACHES = 0.6  # at most …
LEAST_GAP = 0.15  # … and so much less than the expert
# (model, GPU, GPUs of a replica)
REPLICAS = (("qwen3-32b", "h200", 2), ("qwen3-32b", "h100", 4), ("llama-3.1-70b", "h200", 4))
UNITS_PERCENT = (10, 100, 1000)  # in which routers count loads, each as likely
SHOWN = (*LOAD, "shared_prefix_tokens", "policy", "loads_percent", *INCIDENT)
# What the expert tries in practice runs: weights of the share cached, the same replica, and the loads against it, where
# loads count 100%.
TRIED = (
    (1.0, 0.0, 0.1, 0.1, 0.5),
    (1.0, 0.0, 0.05, 0.05, 0.2),
    (1.0, 0.0, 0.2, 0.1, 1.0),
)


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves. The router's unit is drawn first, apart from all else."""
    unit_percent = one_of(Stream(seed, TASK), UNITS_PERCENT)
    return draw_between_anchors(
        seed,
        progress,
        task=TASK,
        draws=DRAWS,
        draw_params=lambda stream: _draw_params(stream, unit_percent),
        describe=_describe,
        serves=_serves,
    )


def _serves(candidate: Candidate) -> bool:
    """The expert's weights carry over, and nobody who looks at one thing alone comes near."""
    anchors = candidate.anchors
    if not 0 < anchors.low * LEAST_DISTANCE <= anchors.high:
        return False

    def reached(weights: dict[str, float]) -> float:
        return candidate.reached(waited_rate(candidate.chosen(weights), candidate.seed))

    wanted = EXPERT_REACHES
    for weights in _misled().values():
        misled = reached(weights)
        if misled > MISLED_REACHES:
            return False
        wanted = max(wanted, misled + LEAST_GAP)
    return reached(_best_in_practice(candidate.visible)) >= wanted


def _draw_params(stream: Stream, unit_percent: int) -> AgentParams:
    model, gpu, size = one_of(stream, REPLICAS)
    replicas = 3 + stream.integer(2)
    sessions = 7 * replicas + stream.integer(4)
    values: dict[str, Any] = {
        "model": model,
        "gpu": gpu,
        "tensor_parallel": size,
        "replicas": replicas,
        "sessions": sessions,
        "sessions_at_once": sessions,
        "start_gap_ms": 1250 + 250 * stream.integer(5),
        "turns_percent": 10 + stream.integer(5),
        "think_at_most_s": 4 + stream.integer(8),
        "shared_prefix_tokens": 20_000 + 2_000 * stream.integer(10),
        "policy": "weighted",
        "loads_percent": unit_percent,
        "incident": "drain",
        "incident_at_s": 1,
        "incident_for_s": 60 + 15 * stream.integer(4),
        "scored_as": "routing",
        "compare_policies": False,
        **dict.fromkeys(ROUTING, 0.0),
    }
    return AgentParams.model_validate(values)


def _describe(params: AgentParams) -> dict[str, Any]:
    return show(params, SHOWN) | {"practice_seeds": list(PRACTICE_SEEDS)}


def _misled() -> dict[str, dict[str, float]]:
    """One thing alone."""
    nothing = dict.fromkeys(ROUTING, 0.0)
    loads = dict.fromkeys(("weight_queued", "weight_pending_tokens", "weight_kv_held"), 1.0)
    return {
        "misconception": nothing | {"weight_cached": 1.0},
        "pinned": nothing | {"weight_same_replica": 1.0},
        "loads": nothing | loads,
    }


def _best_in_practice(visible: dict[str, Any]) -> dict[str, float]:
    """Of a few weights, those that do best in free runs of the same load."""
    scene = shown_load(visible, SHOWN, compare_policies=False)

    def rate(weights: dict[str, float]) -> float:
        tried = scene.model_copy(update=weights)
        return sum(waited_rate(tried, seed) for seed in PRACTICE_SEEDS)

    return max((_allow_for(visible["loads_percent"], weights) for weights in TRIED), key=rate)


def _allow_for(unit_percent: int, weights: tuple[float, ...]) -> dict[str, float]:
    """Weights of the loads in this router's unit."""
    cached, same, *loads = weights
    return dict(zip(ROUTING, (cached, same, *(load * 100 / unit_percent for load in loads)), strict=True))


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves all weights at 0. misconception: only a warm cache counts. pinned: only the session's last replica
    counts. loads: only an even load counts. expert: plays the same load with other seeds under a few weights that join
    cache and loads, in the router's unit, and takes the best.
    """
    chosen = {"naive": {}, **_misled(), "expert": _best_in_practice(prepared.visible)}
    prediction = {"hit_rate": 0.9, "waited_tokens_per_s": 40.0}
    return {who: Submission(params=params, prediction=prediction) for who, params in chosen.items()}
