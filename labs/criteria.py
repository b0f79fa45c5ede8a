"""The kinds of criteria: each reads metrics of a report, or the prediction, and says which share was earned.

Pure. Numbers come from the report alone, so that nothing of a learner's computes its own metric. Float metrics fall
into bands whose edges forgive a difference in the last bits.
"""

import math
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, model_validator

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

    Less is better unless `more_is_better`. A baseline that is as good as the bound, or better, cannot be judged: the
    worst would earn everything.
    All three are metrics of the same report, so that the learner is measured on the traffic that was served.
    """

    kind: Literal["between"]
    metric: str
    baseline: str
    bound: str
    more_is_better: bool = False
    bands: int = Field(20, ge=1, le=1000, description="Number of equal bands between baseline and bound")

    def metrics(self) -> tuple[str, ...]:
        return (self.metric, self.baseline, self.bound)

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        value, baseline, bound = (number(values, name) for name in self.metrics())
        if (baseline >= bound) if self.more_is_better else (baseline <= bound):
            raise Unmeasured(
                f"{self.baseline} is {baseline} and {self.bound} is {bound}: nothing lies between them"
            )
        reached = (baseline - value) / (baseline - bound)
        whole = math.floor(min(max(reached, 0.0), 1.0) * self.bands + EDGE)
        return (Decimal(whole) / self.bands).quantize(FOUR_PLACES, ROUND_FLOOR)


class Anchor(BaseModel):
    """A metric of the report, and the share that reaching it earns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    share: Decimal = Field(ge=0, le=1)


class Piecewise(Criterion):
    """A float metric along anchors that the same report holds: linear between two, in equal bands.

    From nothing at the first anchor to everything at the last. Anchors that stand in the wrong order, or together,
    cannot be judged: the instance should have been drawn again.
    """

    kind: Literal["piecewise"]
    metric: str
    anchors: tuple[Anchor, ...] = Field(min_length=2)
    bands: int = Field(20, ge=1, le=1000)

    @model_validator(mode="after")
    def rises(self) -> "Piecewise":
        shares = [anchor.share for anchor in self.anchors]
        if any(later <= earlier for earlier, later in pairwise(shares)):
            raise ValueError("the anchors' shares must rise")
        return self

    def metrics(self) -> tuple[str, ...]:
        return (self.metric, *(anchor.metric for anchor in self.anchors))

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        value, *places = (number(values, name) for name in self.metrics())
        down = places[-1] < places[0]  # less is better
        if any((b >= a) if down else (b <= a) for a, b in pairwise(places)):
            raise Unmeasured(f"{self.name}: the anchors {places} do not lead from worst to best")
        reached = place_between(value, places, [float(anchor.share) for anchor in self.anchors])
        return (Decimal(math.floor(reached * self.bands + EDGE)) / self.bands).quantize(
            FOUR_PLACES, ROUND_FLOOR
        )


class PredictedExactly(Criterion):
    """A prediction task: a count or an index that was predicted, compared exactly with what came out."""

    kind: Literal["predicted_exactly"]
    field: str = Field(description="Field of the prediction")
    metric: str

    def metrics(self) -> tuple[str, ...]:
        return (self.metric,)

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        return Decimal(int((prediction or {}).get(self.field) == number(values, self.metric)))


class Closeness(BaseModel):
    """`share` is earned where predicted and actual differ by at most this factor: 1.1 is 10% either way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    within_factor: float = Field(ge=1, le=1000, allow_inf_nan=False)
    share: Decimal = Field(ge=0, le=1)


class PredictedWithin(Criterion):
    """A prediction task: a positive float, judged by how far off it was."""

    kind: Literal["predicted_within"]
    field: str
    metric: str
    bands: tuple[Closeness, ...] = Field(min_length=1)

    def metrics(self) -> tuple[str, ...]:
        return (self.metric,)

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        actual = number(values, self.metric)
        if actual <= 0:
            raise Unmeasured(f"{self.metric} is {actual}, so no prediction can be judged by its ratio")
        predicted = (prediction or {}).get(self.field)
        if not isinstance(predicted, (int, float)) or predicted <= 0:
            return Decimal(0)
        off = max(predicted / actual, actual / predicted)
        return next((band.share for band in self.bands if off <= band.within_factor * (1 + EDGE)), Decimal(0))


class PredictionMade(Criterion):
    """Credit for committing a prediction before the run; being right earns nothing here."""

    kind: Literal["prediction_made"]

    def share(self, values: Mapping[str, Any], prediction: Mapping[str, Any] | None) -> Decimal:
        return Decimal(int(bool(prediction)))


AnyCriterion = Annotated[
    Exact | Bands | Between | Piecewise | PredictedExactly | PredictedWithin | PredictionMade,
    Field(discriminator="kind"),
]


def is_number(value: Any) -> TypeGuard[int | float]:
    """To Python true is a number too; here it is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(values: Mapping[str, Any], name: str) -> float:
    """A finite number of the report. Raises Unmeasured."""
    value = values.get(name)
    if not is_number(value) or not math.isfinite(value):
        raise Unmeasured(f"the metric {name} is {value!r}, which is not a finite number")
    return value


def place_between(value: float, places: list[float], shares: list[float]) -> float:
    """Linear interpolation of shares at places (all falling or all rising), held constant outside."""
    sign = -1 if places[-1] < places[0] else 1
    at = sign * value
    if at <= sign * places[0]:
        return shares[0]
    for (left, low), (right, high) in pairwise(zip(places, shares, strict=True)):
        if at <= sign * right:
            return low + (high - low) * (at - sign * left) / (sign * right - sign * left)
    return shares[-1]
