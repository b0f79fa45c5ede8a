"""A varied run beside the run that it repeats: what was altered, and what that changed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.api.schemas import lab_schema
from labs.labels import label
from labs.models import LabTask, Run
from labs.presentation import figure_text, parameter, significant
from labs.reflection import difference
from labs.views.trace_choices import named

MINUS = "−"
YES_OR_NO = "0 or 1"
FIRST = 8


@dataclass(frozen=True)
class Altered:
    label: str
    before: str
    after: str


@dataclass(frozen=True)
class Change:
    label: str
    help: str
    before: str
    after: str
    change: str


@dataclass(frozen=True)
class Difference:
    """Changes stand in order of weight: what the lab's tasks judge, then the report's order, baselines last.

    `first` are the weightiest FIRST of them, `others` the rest.
    """

    altered: list[Altered]
    first: list[Change]
    others: list[Change]
    same: list[Change]


def difference_of(run: Run) -> Difference | None:
    """None where the run repeats none, or the original's report is gone."""
    origin = run.varied_from
    if run.state != Run.State.GRADED or origin is None or origin.report is None:
        return None
    found = difference(run)
    parts = lab_schema(run.lab.job, "metrics")["properties"]
    judged = judged_metrics(run)
    rows = sorted(
        found["metrics"],
        key=lambda row: (row["name"] not in judged, row["name"] not in parts, "_before" in row["name"]),
    )
    changes = [(row["change"] != 0, change_of(row, parts[row["name"]])) for row in rows]
    changed = [change for differs, change in changes if differs]
    return Difference(
        altered=altered_of(run, found["altered"]),
        first=changed[:FIRST],
        others=changed[FIRST:],
        same=[change for differs, change in changes if not differs],
    )


def judged_metrics(run: Run) -> set[str]:
    """What the tasks of the lab judge or let one predict: what matters first."""
    names: set[str] = set()
    for task in LabTask.objects.filter(lab=run.lab, published=True).select_related("lab"):
        names.update(task.task_kind.prediction_metrics.values())
        for criterion in task.criteria():
            names.update(criterion.metrics())
    return names


def altered_of(run: Run, rows: list[dict[str, Any]]) -> list[Altered]:
    properties = lab_schema(run.lab.job, "parameters")["properties"]
    return [
        Altered(
            label(row["name"], part),
            *(parameter(row["name"], named(run, row[when]), part)[1] for when in ("before", "after")),
        )
        for row in rows
        for part in (properties.get(row["name"], {}),)
    ]


def change_of(row: Mapping[str, Any], part: Mapping[str, Any]) -> Change:
    unit, zero = row["unit"], part.get("zero", "")
    return Change(
        label=label(row["name"], part),
        help=part.get("description", ""),
        before=figure_text(row["before"], unit, zero),
        after=figure_text(row["after"], unit, zero),
        change=change_text(row["before"], row["after"], unit),
    )


def change_text(before: float, after: float, unit: str) -> str:
    """With its sign, and relative to before where that says something: −120 µs (−5.7%); a share in points; yes → no."""
    change = after - before
    if change == 0:
        return "same"
    if unit == YES_OR_NO:
        return f"{figure_text(before, unit)} → {figure_text(after, unit)}"
    if "index" in unit:  # it names a thing: another, not a larger one
        return "other"
    sign = "+" if change > 0 else MINUS
    if unit == "fraction":
        return f"{sign}{significant(100 * abs(change))} points"
    absolute = f"{sign}{figure_text(abs(change), unit)}"
    if before == 0:
        return absolute
    relative = 100 * change / abs(before)
    return (
        f"{absolute} ({sign}{significant(round(abs(relative), 1))}%)" if abs(relative) >= 0.05 else absolute
    )


def altered_text(run: Run) -> str:
    """`Window steps: 4 steps → 9 steps`."""
    origin = run.varied_from
    assert origin is not None
    rows = [
        {"name": name, "before": origin.params.get(name), "after": value}
        for name, value in run.params.items()
        if value != origin.params.get(name)
    ]
    shown = altered_of(run, rows)
    return "; ".join(f"{one.label}: {one.before} → {one.after}" for one in shown)


def variations_of(run: Run) -> list[tuple[Run, str]]:
    """The runs that repeat this one, the latest first, each with what it alters."""
    rows = run.variations.select_related("lab", "varied_from").defer("report", "provenance").order_by("-pk")
    return [(row, altered_text(row)) for row in rows]
