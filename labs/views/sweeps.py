"""A lab's sweep as a page without script shows it: selects for the axes, one cut of the grid as a table, and words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.page_forms import Choice, label
from labs.presentation import figure_text, significant

# What the page draws and lists of a sweep; its data has all metrics.
SHOWN = ("step_time_us", "max_over_mean_mean", "server_later_us", "hit_rate")


@dataclass(frozen=True)
class Select:
    name: str
    label: str
    choices: list[Choice]


@dataclass(frozen=True)
class Head:
    name: str
    label: str


@dataclass(frozen=True)
class Cell:
    metric: str
    x: Any
    line: str  # "false" or "true", as JSON writes it
    text: str


@dataclass(frozen=True)
class SweepView:
    """One cut of a sweep. along: the drawn axis; lines: names of the settings false and true."""

    selects: list[Select]
    along: str
    metrics: list[Head]
    lines: list[tuple[str, str]]
    rows: list[tuple[str, list[Cell]]]
    what: str
    summary: str


def sweep_view(data: Mapping[str, Any], query: Mapping[str, str]) -> SweepView:
    """data: SweepData as JSON. query: axis → index of its value; what is none starts in the middle."""
    axes = data["axes"]
    along = max((axis for axis in axes if is_numeric(axis)), key=lambda axis: len(axis["values"]))
    lines = next(axis for axis in axes if is_switch(axis))
    others = [axis for axis in axes if axis is not along and axis is not lines]
    at = {axis["name"]: index_in(query.get(axis["name"], ""), axis) for axis in others}
    metrics = [metric for name in SHOWN for metric in data["metrics"] if metric["name"] == name]
    cells = {
        (metric["name"], x, line): value_at(axes, metric, at | {along["name"]: x, lines["name"]: line})
        for metric in metrics
        for x in range(len(along["values"]))
        for line in range(2)
    }
    names = [(str(on).lower(), f"{label(lines['name'])} {'on' if on else 'off'}") for on in lines["values"]]
    first = metrics[0]["name"]
    pairs = [(x, cells[first, place, 0], cells[first, place, 1]) for place, x in enumerate(along["values"])]
    what = f"With {names[1][1]}, {label(first).lower()} is lower"
    return SweepView(
        selects=[select_of(axis, at[axis["name"]]) for axis in others],
        along=titled(along),
        metrics=[Head(metric["name"], titled(metric)) for metric in metrics],
        lines=names,
        rows=[
            (
                significant(x),
                [
                    Cell(metric["name"], x, names[line][0], significant(cells[metric["name"], place, line]))
                    for metric in metrics
                    for line in range(2)
                ],
            )
            for place, x in enumerate(along["values"])
        ],
        what=what,
        summary=summary_of(what, pairs, along["unit"]),
    )


def is_switch(axis: Mapping[str, Any]) -> bool:
    return all(isinstance(value, bool) for value in axis["values"])


def is_numeric(axis: Mapping[str, Any]) -> bool:
    return not is_switch(axis) and all(isinstance(value, (int, float)) for value in axis["values"])


def index_in(text: str, axis: Mapping[str, Any]) -> int:
    count = len(axis["values"])
    return (
        int(text) if text.isascii() and text.isdigit() and len(text) < 4 and int(text) < count else count // 2
    )


def value_at(axes: list[Mapping[str, Any]], metric: Mapping[str, Any], at: Mapping[str, int]) -> float:
    values: Any = metric["values"]
    for axis in axes:
        values = values[at[axis["name"]]]
    return float(values)


def select_of(axis: Mapping[str, Any], chosen: int) -> Select:
    choices = [
        Choice(str(index), figure_text(value, axis["unit"]), index == chosen)
        for index, value in enumerate(axis["values"])
    ]
    return Select(axis["name"], label(axis["name"]), choices)


def titled(part: Mapping[str, Any]) -> str:
    """A name with its unit, once: Step time (µs)."""
    words, unit = label(part["name"]), part["unit"]
    return words if not unit or unit.casefold() in words.casefold().split() else f"{words} ({unit})"


def summary_of(what: str, pairs: list[tuple[Any, float, float]], unit: str) -> str:
    """pairs: (x, value of false, value of true) along the axis. From where on, to the end, the second is lower."""
    not_lower = [place for place, (_, off, on) in enumerate(pairs) if not on < off]
    if not not_lower:
        return f"{what} at every size of this grid."
    last = not_lower[-1]
    if last == len(pairs) - 1:
        return f"{what} nowhere on this grid."
    return (
        f"{what} from {significant(pairs[last + 1][0])} {unit} on, not yet at {significant(pairs[last][0])}."
    )
