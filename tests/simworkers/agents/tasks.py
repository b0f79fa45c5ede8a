"""References of the agent lab's tasks, run as graded runs are."""

import functools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labs.rubric import grade
from simworkers.agents.params import AgentParams
from simworkers.agents.simulate import simulate
from tests.simworkers.tasks import SEEDS, Tasks, silent

__all__ = [
    "KINDS",
    "SEEDS",
    "constants_that_come_near",
    "earned",
    "instance",
    "measured",
    "references",
    "result",
    "rubric",
    "share",
    "sheet",
    "silent",
]


def measured(kind, seed, who):
    """The metrics of this reference's graded run."""
    submitted = references(kind, seed)[who]
    values = instance(kind, seed).params | submitted.params | (submitted.artefact or {})
    params = AgentParams.model_validate(values)
    return _measured(params.model_dump_json(), instance(kind, seed).seed)


@functools.cache
def _measured(params_json, seed):
    return simulate(AgentParams.model_validate_json(params_json), seed, silent).metrics


TASKS = Tasks("agent-routing", measured)
KINDS, instance, references = TASKS.kinds, TASKS.instance, TASKS.references
rubric, sheet, share, result = TASKS.rubric, TASKS.sheet, TASKS.share, TASKS.result


def earned(tasks: Tasks, kind: str, seed: int, changes: Mapping[str, Any]) -> float:
    """What the naive reference's run would earn if these metrics were others, without the credit for a prediction."""
    metrics = {**tasks.measured(kind, seed, "naive"), **changes}
    predicted = tasks.references(kind, seed)["naive"].prediction
    sheet = grade(metrics, tasks.rubric(kind), prediction=predicted)
    rows = [row for row in sheet.criteria if row.kind != "prediction_made"]
    return float(sum(row.earned for row in rows) / sum(row.points for row in rows))


def constants_that_come_near(
    experts: Iterable[float], by_seed: Sequence[Mapping[Any, float]], gap: float
) -> dict[Any, tuple[float, float]]:
    """Answers that, handed in everywhere, earn on average less than this below the experts: answer → both means.

    by_seed: answer → what it earns, of each instance.
    """
    expert = statistics.fmean(experts)
    means = {answer: statistics.fmean(earns[answer] for earns in by_seed) for answer in by_seed[0]}
    return {answer: (mean, expert) for answer, mean in means.items() if mean > expert - gap}
