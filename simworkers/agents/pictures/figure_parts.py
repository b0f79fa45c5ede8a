"""What the figures of the agent lab share: colours of tiers, bands of a picture, axes that name their ticks."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from simworkers.drawing import BLUE, GREEN, ORANGE, SKY, Spec

PURPLE = "#CC79A7"  # of the same palette as the others
HBM, HOST, POOL, UNCACHED, OUTPUT = "in HBM", "in host memory", "in the pool", "uncached", "output"
TOKENS = {HBM: GREEN, HOST: BLUE, POOL: SKY, UNCACHED: ORANGE, OUTPUT: PURPLE}


Label = str | list[str]  # one line, or several
Point = tuple[float, float]


@dataclass(frozen=True)
class Band:
    """A part of a picture with a scale of its own: values up to `top` → heights from `ground` on."""

    ground: float
    height: float
    top: float

    def at(self, value: str) -> str:
        """Vega expression of a height, from one of a value."""
        return f"{self.ground} + {self.height} * ({value}) / {self.top}"

    def ticks(self, *labels: tuple[float, Label]) -> list[tuple[float, Label]]:
        """(value, label) as (height, label)."""
        return [(self.ground + self.height * value / self.top, label) for value, label in labels]


def named_ticks(ticks: Sequence[tuple[float, Label]], *, is_line: bool = True) -> Spec:
    """An axis that writes words at some places. is_line: with its line, its ticks and a grid."""
    words = " : ".join(f"abs(datum.value - {at}) < 0.001 ? {label!r}" for at, label in ticks)
    axis: Spec = {
        "values": [at for at, _ in ticks],
        "labelExpr": f"{words} : ''",
        "labelOverlap": False,
        "labelLimit": 150,
    }
    return axis if is_line else axis | {"grid": False, "ticks": False, "domain": False, "labelPadding": 6}


def clock(end_s: float) -> Spec:
    """The x axis of all pictures over time."""
    return {
        "type": "quantitative",
        "title": "modelled time, s",
        "scale": {"domain": [0, max(end_s, 1)], "nice": False},
        "axis": {"tickCount": 6, "grid": False},
    }


def words(policy: str) -> str:
    """A policy's name as it is written in a picture."""
    return policy.replace("_", " ")


def listed(policies: Sequence[str]) -> str:
    """Policies of which none is before the others: both, or the first and how many more."""
    if len(policies) < 3:
        return " and ".join(policies)
    return f"{policies[0]} and {len(policies) - 1} others"


def round_up(value: float) -> float:
    """To a round number, for the top of an axis."""
    power = 10.0 ** floor(log10(value)) if value > 0 else 1.0
    return next(
        digit * power for digit in (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10) if value <= digit * power * (1 + 1e-9)
    )


def short(count: float) -> str:
    """1.2M, 340k, 87."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:  # with three digits, what lies below would be 1000 of the smaller unit
            return f"{count / size:.3g}{letter}"
    return f"{count:.0f}"


def percent(share: float) -> str:
    """With one decimal place, and no 100% where something is missing."""
    return "99.9%" if 0.999 <= share < 1 else f"{share:.1%}"


def incident_rules(params: dict[str, Any], end_s: float, x: Spec) -> list[Spec]:
    """Dotted rules where replica 0 goes and where it comes back, within the time that was played."""
    if params["incident"] == "none":
        return []
    at_s, for_s = params["incident_at_s"], params["incident_for_s"]
    moments = [at_s, at_s + for_s] if for_s else [at_s]
    shown = [{"time_s": moment} for moment in moments if moment <= end_s]
    return [
        {
            "data": {"values": shown},
            "mark": {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1.5},
            "encoding": {"x": {"field": "time_s"} | x},
        }
    ]


def incident_words(params: dict[str, Any], end_s: float) -> str:
    """What the dotted rules say of the time that was played, or why there are none, or nothing."""
    if params["incident"] == "none":
        return ""
    what = "dies" if params["incident"] == "fail" else "is drained"
    at_s, for_s = params["incident_at_s"], params["incident_for_s"]
    if at_s > end_s:
        return f"; all had ended before replica 0 {what}"
    comes_back = for_s and at_s + for_s <= end_s
    return f"; dotted: replica 0 {what}{', and comes back' if comes_back else ''}"
