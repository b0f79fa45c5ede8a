"""References of a task, run as graded runs are, and judged by the rubric that ships with it."""

import functools
import json
from pathlib import Path

from labs.rubric import Rubric, grade
from simworkers.catalog import get_job, resolve
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.simulate import simulate

LAB = Path(__file__).parents[3] / "fixtures" / "labs" / "multimodal-cache.json"
KINDS = get_job("multimodal-cache").tasks
SEEDS = range(20)


def silent(_done, _total):
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


def measured(kind, seed, who):
    """The metrics of this reference's graded run."""
    params = MultimodalParams.model_validate(instance(kind, seed).params | references(kind, seed)[who].params)
    return _measured(params.model_dump_json(), instance(kind, seed).seed)


@functools.cache
def _measured(params_json, seed):
    return simulate(MultimodalParams.model_validate_json(params_json), seed, silent).metrics


def sheet(kind, seed, who, prediction=None):
    """The reference's own run, judged; with another prediction if one is given."""
    predicted = prediction or references(kind, seed)[who].prediction
    return grade(measured(kind, seed, who), rubric(kind), prediction=predicted)


def share(kind, seed, who, criterion):
    """What one criterion says, 0 … 1, whether or not its requirements are met."""
    return float(next(row.share for row in sheet(kind, seed, who).criteria if row.name == criterion))


def result(kind, seed, who, prediction=None):
    """Score without the credit for having made a prediction."""
    rows = [row for row in sheet(kind, seed, who, prediction).criteria if row.kind != "prediction_made"]
    return float(sum(row.earned for row in rows) / sum(row.points for row in rows))
