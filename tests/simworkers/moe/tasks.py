"""References of a task, measured and judged by the rubric that ships with it.

Measured without the experts' GEMMs, which decide nothing that is counted; `test_the_short_way_measures_what_a_run_does`
holds this against real runs.
"""

import functools
import json
from pathlib import Path

from labs.rubric import Rubric, grade
from simworkers.catalog import get_job, resolve
from simworkers.hardware import GPUS, MODELS
from simworkers.moe.cost import CostModel
from simworkers.moe.ledger import budget_bytes, keep_ledger
from simworkers.moe.marks import measure_marks
from simworkers.moe.params import MoeParams
from simworkers.moe.rehearsal import count_experts, rehearse
from simworkers.moe.simulate import sampling_floor

LAB = Path(__file__).parents[3] / "fixtures" / "labs" / "moe-eplb.json"
KINDS = get_job("moe-eplb").tasks
SEEDS = range(20)


def silent(_done: int, _total: int) -> None:
    pass


@functools.cache
def instance(kind, seed):
    return resolve(KINDS[kind].prepare)(seed, silent)


@functools.cache
def references(kind, seed):
    return resolve(KINDS[kind].references)(instance(kind, seed))


@functools.cache
def rubric(kind):
    tasks = json.loads(LAB.read_text())["tasks"]
    return Rubric.model_validate(next(task["rubric"] for task in tasks if task["kind"] == kind))


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


def sheet(kind, seed, who, prediction=None):
    """The references' own run, judged; with another prediction if one is given."""
    predicted = prediction or references(kind, seed)[who].prediction
    return grade(measured(kind, seed, who), rubric(kind), prediction=predicted)


def share(kind, seed, who, criterion):
    """What one criterion says, 0 … 1, whether or not its requirements are met."""
    return float(next(row.share for row in sheet(kind, seed, who).criteria if row.name == criterion))


def result(kind, seed, who, prediction=None):
    """Score without the credit for having made a prediction."""
    rows = [row for row in sheet(kind, seed, who, prediction).criteria if row.kind != "prediction_made"]
    return float(sum(row.earned for row in rows) / sum(row.points for row in rows))
