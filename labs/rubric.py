"""Rubrics as data, and judging a report by one. Pure: no database, no clock.

A rubric is a list of criteria. Each names a metric of the lab's report, says how it is judged, what it is worth,
and what a learner who misses it should hear. Measuring and judging are apart: a rubric can change and be applied
to a stored report without running anything again.
"""

import hashlib
import json
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from labs.criteria import FOUR_PLACES, AnyCriterion, number
from simworkers.jobs import Job, TaskKind


class Rubric(BaseModel):
    """At least one criterion, and points to earn: an empty rubric never passes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    criteria: tuple[AnyCriterion, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def is_coherent(self) -> "Rubric":
        seen: set[str] = set()
        for criterion in self.criteria:
            if criterion.name in seen:
                raise ValueError(f"two criteria are named {criterion.name}")
            # Only earlier ones, so that requirements cannot run in a circle.
            for name in criterion.requires:
                if name not in seen:
                    raise ValueError(f"{criterion.name} requires {name}, which is no earlier criterion")
            seen.add(criterion.name)
        if self.points == 0:
            raise ValueError("no criterion has points, so nothing could be earned")
        return self

    @property
    def points(self) -> Decimal:
        return sum((criterion.points for criterion in self.criteria), Decimal(0))

    @property
    def fingerprint(self) -> str:
        """12 hex digits that name this rubric, so that a run can say by which one it was judged."""
        # Without defaults: a criterion that learns a new option must not make every older rubric another one.
        text = json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Judged(BaseModel):
    """One criterion as judged. `share` in [0, 1]; `earned` = share × points where requirements are met."""

    name: str
    title: str
    kind: str
    values: dict[str, float]
    share: Decimal
    points: Decimal
    earned: Decimal
    passed: bool
    blocked_by: list[str]
    feedback: str


class Sheet(BaseModel):
    """A report, judged. `score` in [0, 1] with four places."""

    criteria: list[Judged]
    earned: Decimal
    points: Decimal
    score: Decimal


def grade(values: Mapping[str, Any], rubric: Rubric, *, prediction: Mapping[str, Any] | None = None) -> Sheet:
    """Judge a report's metrics. Raises Unmeasured where a needed number is missing or not finite."""
    judged: list[Judged] = []
    passed: set[str] = set()
    for criterion in rubric.criteria:
        share = criterion.share(values, prediction)
        blocked_by = [name for name in criterion.requires if name not in passed]
        if share == 1 and not blocked_by:
            passed.add(criterion.name)
        earned = Decimal(0) if blocked_by else (share * criterion.points).quantize(FOUR_PLACES)
        judged.append(
            Judged(
                name=criterion.name,
                title=criterion.title,
                kind=criterion.kind,
                values={name: number(values, name) for name in criterion.metrics()},
                share=share,
                points=criterion.points,
                earned=earned,
                passed=criterion.name in passed,
                blocked_by=blocked_by,
                feedback="" if criterion.name in passed else criterion.feedback,
            )
        )
    earned = sum((row.earned for row in judged), Decimal(0))
    score = (earned / rubric.points).quantize(FOUR_PLACES, ROUND_HALF_UP)
    return Sheet(criteria=judged, earned=earned, points=rubric.points, score=score)


def compare_prediction(
    prediction: Mapping[str, Any], truths: Mapping[str, str], values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What was predicted beside what came out. truths: field of the prediction → metric that holds the truth."""
    return [
        {"field": field, "predicted": prediction.get(field), "metric": metric, "actual": values.get(metric)}
        for field, metric in truths.items()
    ]


def scalar_metrics(job: Job) -> dict[str, dict[str, Any]]:
    """Name → JSON Schema of each metric that the lab reports as a single number."""
    schema = job.metrics.model_json_schema()["properties"]
    return {name: field for name, field in schema.items() if field.get("type") in ("integer", "number")}


def unknown_names(rubric: Rubric, job: Job, kind: TaskKind) -> list[str]:
    """A sentence for each metric that the lab does not report as a single number, or field nobody predicts."""
    scalars = scalar_metrics(job)
    problems = []
    for criterion in rubric.criteria:
        for name in criterion.metrics():
            if name not in scalars:
                problems.append(f"{criterion.name}: the lab {job.name} has no single-number metric {name!r}")
        predicted = getattr(criterion, "field", None)
        if predicted is not None and predicted not in kind.prediction.model_fields:
            problems.append(f"{criterion.name}: the prediction has no field {predicted!r}")
    return problems
