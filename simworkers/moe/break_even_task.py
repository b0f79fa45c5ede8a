"""The task `when-eplb-pays`: find the step size from which on copies pay, for a drawn model, GPU and skew.

A prediction task. The prices of the cost model are shown with the observed load: one slot's reading, one token's
arithmetic, one copy's way over the links. Instances keep the number that the published example has, and the ridge of
the roofline at average load, far from the truth.
"""

from typing import Any

import numpy as np

from simworkers.hardware import GPUS, MODELS
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.moe.break_even import break_even_tokens
from simworkers.moe.cost import CostModel
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import IntArray, place_contiguously
from simworkers.moe.planning import cluster_shape, plan
from simworkers.moe.rehearsal import count_experts
from simworkers.moe.scenes import OBSERVED_STEPS, describe, drawn_skew, observed_load
from simworkers.rng import Stream

# (experts, top_k, GPUs)
CLUSTERS = ((8, 2, 4), (16, 2, 8), (16, 2, 4), (32, 4, 8))
DRAWS = 300
WITHIN = (96, 16_384)  # tokens; a free run can be made on either side
LESSON_TOKENS = 780  # what the published example has
FAR = 1.3  # factor that wrong ideas are off by at least
EXPERT_WITHIN = 1.04
US = 1e6


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    return draw_until_it_serves(seed, "when-eplb-pays", lambda stream: _draw(stream, progress), DRAWS)


def _draw(stream: Stream, progress: Progress) -> PreparedInstance | None:
    params = _draw_params(stream)
    seed = stream.integer(SEEDS)
    counts = count_experts(params, seed, progress)
    observed, graded = counts[:OBSERVED_STEPS].sum(axis=0), counts[OBSERVED_STEPS:].sum(axis=0)
    actual = _break_even(params, graded)
    if not WITHIN[0] <= actual <= WITHIN[1]:
        return None
    serves = (
        _apart(actual, LESSON_TOKENS) >= FAR
        and _apart(actual, _ridge_tokens(params)) >= FAR
        and _apart(actual, max(_break_even(params, observed), 1)) <= EXPERT_WITHIN
    )
    if not serves:
        return None
    visible = describe(params, observed) | _prices(params)
    return PreparedInstance(params=params.model_dump(), visible=visible, seed=seed)


def _draw_params(stream: Stream) -> MoeParams:
    experts, top_k, gpus = CLUSTERS[stream.integer(len(CLUSTERS))]
    models, cards = tuple(MODELS), tuple(GPUS)
    values: dict[str, Any] = {
        "model_profile": models[stream.integer(len(models))],
        "gpu_profile": cards[stream.integer(len(cards))],
        "weight_precision": ("fp8", "bf16")[stream.integer(2)],
        "num_experts": experts,
        "top_k": top_k,
        "num_gpus": gpus,
        "num_layers": 2,
        "num_groups": 1,
        "checkpoint_seed": stream.integer(2**31),
        "tokens_per_step": 4096,
        "chunk_tokens": 16,
        "warmup_steps": OBSERVED_STEPS,
        "num_steps": 16,
        "eplb": True,
        "redundant_slots_per_gpu": 1 + stream.integer(2),
        "window_steps": 64,
        "interval_steps": 256,
        "hbm_budget_gb": 100_000.0,
    }
    return MoeParams.model_validate(values | drawn_skew(stream, 30, 100))


def _cost(params: MoeParams) -> CostModel:
    gpu, model = GPUS[params.gpu_profile], MODELS[params.model_profile]
    return CostModel(gpu, model, params.weight_precision, params.num_gpus, params.num_nodes)


def _break_even(params: MoeParams, load: IntArray) -> int:
    contiguous = place_contiguously(params.num_layers, params.num_experts, params.num_gpus)
    return break_even_tokens(load, contiguous, plan(params, load), _cost(params), params.top_k)


def _ridge_tokens(params: MoeParams) -> float:
    """Step size at which an expert of average load takes as long to compute as to read."""
    roofline = _cost(params).roofline
    return roofline.read_s / roofline.token_s * params.num_experts / params.top_k


def _apart(one: float, other: float) -> float:
    return max(one / other, other / one)


def _prices(params: MoeParams) -> dict[str, Any]:
    cost = _cost(params)
    return {
        "weight_precision": params.weight_precision,
        "slots_per_gpu_before": params.num_experts // params.num_gpus,
        "slots_per_gpu_with_eplb": cluster_shape(params).slots_per_gpu,
        "slot_read_us": round(cost.roofline.read_s * US, 4),
        "token_compute_us": round(cost.roofline.token_s * US, 6),
        "copy_link_us": round(cost.nvlink_s_per_copy * US, 6),
    }


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """Each from the visible part alone.

    naive: believes that balance always pays. misconception: believes that it pays once an expert of average load is
    bound by arithmetic, as if neither skew nor the copies' own reading counted. expert: prices both placements for the
    observed shares and looks for the crossing.
    """
    params, load = MoeParams.model_validate(prepared.params), observed_load(prepared)
    tokens = {
        "naive": 1,
        "misconception": int(np.ceil(_ridge_tokens(params))),
        "expert": _break_even(params, load),
    }
    return {
        who: Submission(params={}, prediction={"break_even_tokens": told}) for who, told in tokens.items()
    }
