"""Rubrics as data, and judging a report by one. Pure: no database, no clock.

A rubric is a list of criteria. Each names a metric of the lab's report, says how it is judged, what it is worth,
and what a learner who misses it should hear. Measuring and judging are apart: a rubric can change and be applied
to a stored report without running anything again.
"""

import math
from collections.abc import Mapping
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from simworkers.catalog import Job, TaskKind

FOUR_PLACES = Decimal("0.0001")
# A float metric may differ in its last bits between machines; a band's edge forgives that much.
EDGE = 1e-9


class Unmeasured(Exception):
    """The report lacks a number that the rubric needs, or it is not finite: our fault, never a zero."""


class Criterion(BaseModel):
    """What all kinds share. `requires` names criteria that must be passed for this one to earn anything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=60)
    title: str = Field(min_length=1, max_length=200)
    points: Decimal = Field(ge=0, le=1000, max_digits=7, decimal_places=2)
    feedback: str = Field(min_length=1, description="What the learner hears when points were missed")
    requires: tuple[str, ...] = ()

    def metrics(self) -> tuple[str, ...]:
        """Names of the report's metrics that this criterion reads."""
        return ()


class Exact(Criterion):
    """A count, compared exactly."""

    kind: Literal["exact"]
    metric: str
    equals: int

    def metrics(self) -> tuple[str, ...]:
        return (self.metric,)

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        return Decimal(int(number(values, self.metric) == self.equals))


class Band(BaseModel):
    """`share` is earned where the metric is at most `at_most`, or at least `at_least`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_most: float | None = Field(None, allow_inf_nan=False)
    at_least: float | None = Field(None, allow_inf_nan=False)
    share: Decimal = Field(ge=0, le=1)

    @model_validator(mode="after")
    def has_an_edge(self) -> "Band":
        if self.at_most is None and self.at_least is None:
            raise ValueError("a band needs at_most or at_least")
        return self

    def holds(self, value: float) -> bool:
        below = self.at_most is None or value <= self.at_most + EDGE * max(1.0, abs(self.at_most))
        above = self.at_least is None or value >= self.at_least - EDGE * max(1.0, abs(self.at_least))
        return below and above


class Bands(Criterion):
    """A float metric, judged by the first band that holds; none: nothing."""

    kind: Literal["bands"]
    metric: str
    bands: tuple[Band, ...] = Field(min_length=1)

    def metrics(self) -> tuple[str, ...]:
        return (self.metric,)

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        value = number(values, self.metric)
        return next((band.share for band in self.bands if band.holds(value)), Decimal(0))


class Between(Criterion):
    """A float metric between a baseline (nothing) and a computed bound (everything), in equal bands.

    All three are metrics of the same report, so that the learner is measured on the traffic that was served.
    """

    kind: Literal["between"]
    metric: str
    baseline: str
    bound: str
    bands: int = Field(20, ge=1, le=1000, description="Number of equal bands between baseline and bound")

    def metrics(self) -> tuple[str, ...]:
        return (self.metric, self.baseline, self.bound)

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        value, baseline, bound = (number(values, name) for name in self.metrics())
        if baseline == bound:
            raise Unmeasured(f"{self.baseline} and {self.bound} are both {bound}: nothing lies between them")
        reached = (baseline - value) / (baseline - bound)
        whole = math.floor(min(max(reached, 0.0), 1.0) * self.bands + EDGE)
        return (Decimal(whole) / self.bands).quantize(FOUR_PLACES, ROUND_FLOOR)


class PredictionMade(Criterion):
    """Credit for committing a prediction before the run; being right earns nothing here."""

    kind: Literal["prediction_made"]

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        return Decimal(int(bool(prediction)))


AnyCriterion = Annotated[Exact | Bands | Between | PredictionMade, Field(discriminator="kind")]


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
    score = (earned / rubric.points).quantize(FOUR_PLACES, ROUND_HALF_EVEN)
    return Sheet(criteria=judged, earned=earned, points=rubric.points, score=score)


def number(values: Mapping[str, Any], name: str) -> float:
    """A finite number of the report. Raises Unmeasured."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Unmeasured(f"the metric {name} is {value!r}, which is not a finite number")
    return value


def compare_prediction(
    prediction: Mapping[str, Any], truths: Mapping[str, str], values: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What was predicted beside what came out. truths: field of the prediction → metric that holds the truth."""
    return [
        {"field": field, "predicted": prediction.get(field), "metric": metric, "actual": values.get(metric)}
        for field, metric in truths.items()
    ]


def unknown_names(rubric: Rubric, job: Job, kind: TaskKind) -> list[str]:
    """A sentence for each metric that the lab does not report as a single number."""
    schema = job.metrics.model_json_schema()["properties"]
    scalars = {name for name, field in schema.items() if field.get("type") in ("integer", "number")}
    return [
        f"{criterion.name}: the lab {job.name} has no single-number metric {name!r}"
        for criterion in rubric.criteria
        for name in criterion.metrics()
        if name not in scalars
    ]
