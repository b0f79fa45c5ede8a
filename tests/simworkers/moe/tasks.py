"""References of the MoE lab's tasks, measured the short way.

Measured without the experts' GEMMs, which decide nothing that is counted; `test_the_short_way_measures_what_a_run_does`
holds this against real runs.
"""

import functools

from simworkers.hardware import GPUS, MODELS
from simworkers.moe.cost import CostModel
from simworkers.moe.ledger import budget_bytes, keep_ledger
from simworkers.moe.marks import measure_marks
from simworkers.moe.params import MoeParams
from simworkers.moe.rehearsal import count_experts, rehearse
from simworkers.moe.simulate import sampling_floor
from tests.simworkers.tasks import SEEDS, Tasks, silent

__all__ = [
    "KINDS",
    "SEEDS",
    "instance",
    "measured",
    "params_of",
    "references",
    "result",
    "rubric",
    "share",
    "sheet",
    "silent",
]


def params_of(kind, seed, who):
    handed_in = references(kind, seed)[who]
    return MoeParams.model_validate(
        instance(kind, seed).params | handed_in.params | (handed_in.artefact or {})
    )


@functools.cache
def _counts(kind, seed):
    return count_experts(
        MoeParams.model_validate(instance(kind, seed).params), instance(kind, seed).seed, silent
    )


@functools.cache
def _floor(kind, seed):
    params = MoeParams.model_validate(instance(kind, seed).params)
    total = params.tokens_per_step * params.top_k
    return sampling_floor(total, params.num_gpus, instance(kind, seed).seed, silent, 1)


def measured(kind, seed, who):
    """The metrics that rubrics of this lab read."""
    return _measured(kind, seed, params_of(kind, seed, who).model_dump_json())


@functools.cache
def _measured(kind, seed, params_json):
    params, counts = MoeParams.model_validate_json(params_json), _counts(kind, seed)
    rehearsed = rehearse(params, counts)
    gpu, model = GPUS[params.gpu_profile], MODELS[params.model_profile]
    cost = CostModel(gpu, model, params.weight_precision, params.num_gpus, params.num_nodes)
    extra = keep_ledger(params, params.extra_slots_per_gpu).copies * params.num_gpus
    # The straggler's rubric reads none of the marks, which take longer than all else.
    marks = {} if kind == "predict-straggler" else measure_marks(params, counts, cost, lambda: None)
    return marks | {
        "max_over_mean_before_mean": rehearsed.contiguous(),
        "max_over_mean_mean": rehearsed.reached(),
        "straggler_gpu_before": int(rehearsed.gpu_totals().argmax()),
        "sampling_floor": _floor(kind, seed),
        "within_budget": int(extra <= budget_bytes(params)),
    }


TASKS = Tasks("moe-eplb", measured)
KINDS, instance, references = TASKS.kinds, TASKS.instance, TASKS.references
rubric, sheet, share, result = TASKS.rubric, TASKS.sheet, TASKS.share, TASKS.result
