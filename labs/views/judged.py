"""Which numbers of a report were judged: they stand first on a run's page, and with the criteria that read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.labels import label, unit_of
from labs.presentation import figure_text


@dataclass(frozen=True)
class JudgedCriterion:
    """A row of a run's sheet, and the metrics that it read: (label, value)."""

    row: Mapping[str, Any]
    read: list[tuple[str, str]]


def criteria_of(
    sheet: Mapping[str, Any] | None, metrics: Mapping[str, Any], params: Mapping[str, Any]
) -> list[JudgedCriterion]:
    """metrics: the fields of the lab's report. A number that the lab reports no longer has the words of its name."""
    return [
        JudgedCriterion(row, [told(name, value, metrics, params) for name, value in row["values"].items()])
        for row in (sheet or {}).get("criteria", ())
    ]


def told(name: str, value: float, metrics: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[str, str]:
    part = metrics.get(name, {})
    return label(name, part), figure_text(value, unit_of(part, params), part.get("zero", ""))


def judged_names(sheet: Mapping[str, Any] | None) -> set[str]:
    """Names of the metrics that the criteria read."""
    return {name for row in (sheet or {}).get("criteria", ()) for name in row["values"]}


def is_beside(judged: set[str], metrics: Mapping[str, Any]) -> bool:
    """Whether all that was judged was played beside the run: each number belongs to a part that a run need not have."""
    return bool(judged) and all(metrics.get(name, {}).get("part") for name in judged)
