"""References of a lab's tasks, judged by the rubric that ships with each."""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labs.rubric import Rubric, Sheet, grade
from simworkers.catalog import get_job, resolve
from simworkers.jobs import PreparedInstance, Submission

FIXTURES = Path(__file__).parents[2] / "fixtures" / "labs"
SEEDS = range(20)


def silent(_done: int, _total: int) -> None:
    pass


class Tasks:
    """All tasks of one lab. measured: (kind, seed, who) → the metrics of this reference's graded run."""

    def __init__(self, lab: str, measured: Callable[[str, int, str], Mapping[str, Any]]) -> None:
        self.kinds = get_job(lab).tasks
        self.measured = measured
        fixture = json.loads((FIXTURES / f"{lab}.json").read_text())
        self._rubrics = {task["kind"]: Rubric.model_validate(task["rubric"]) for task in fixture["tasks"]}
        self.instance = functools.cache(self._instance)
        self.references = functools.cache(self._references)

    def _instance(self, kind: str, seed: int) -> PreparedInstance:
        prepared: PreparedInstance = resolve(self.kinds[kind].prepare)(seed, silent)
        return prepared

    def _references(self, kind: str, seed: int) -> dict[str, Submission]:
        found: dict[str, Submission] = resolve(self.kinds[kind].references)(self.instance(kind, seed))
        return found

    def rubric(self, kind: str) -> Rubric:
        return self._rubrics[kind]

    def sheet(self, kind: str, seed: int, who: str, prediction: dict[str, Any] | None = None) -> Sheet:
        """The reference's own run, judged; with another prediction if one is given."""
        predicted = prediction or self.references(kind, seed)[who].prediction
        return grade(self.measured(kind, seed, who), self.rubric(kind), prediction=predicted)

    def share(self, kind: str, seed: int, who: str, criterion: str) -> float:
        """What one criterion says, 0 … 1, whether or not its requirements are met."""
        rows = self.sheet(kind, seed, who).criteria
        return float(next(row.share for row in rows if row.name == criterion))

    def result(self, kind: str, seed: int, who: str, prediction: dict[str, Any] | None = None) -> float:
        """Score without the credit for having made a prediction."""
        criteria = self.sheet(kind, seed, who, prediction).criteria
        rows = [row for row in criteria if row.kind != "prediction_made"]
        return float(sum(row.earned for row in rows) / sum(row.points for row in rows))
