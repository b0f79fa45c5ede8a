"""A lab's sweep as a page without script shows it: selects for the axes, one cut of the grid as a table, and words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labs.labels import label
from labs.page_forms import Choice
from labs.presentation import figure_text, significant, time_unit, titled

# What the page draws and lists of a sweep; its data has all metrics.
SHOWN = (
    "step_time_us",
    "max_over_mean_mean",
    "server_later_us",
    "ttft_p90_us",
    "hit_rate",
    "tokens_per_gpu_s",
)


@dataclass(frozen=True)
class Select:
    name: str
    label: str
    choices: list[Choice]


@dataclass(frozen=True)
class Head:
    name: str
    label: str
    divisor: int  # of the values as they are measured: what is shown is in a larger unit


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


def sweep_view(
    data: Mapping[str, Any],
    query: Mapping[str, str],
    params: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
) -> SweepView:
    """data: SweepData as JSON. query: axis → index of its value; what is none starts in the middle.

    params, metrics: the lab's schemas, for what axes and metrics are called.
    """
    name_axis, name_metric = namer(params), namer(metrics)
    axes = data["axes"]
    along = max((axis for axis in axes if is_numeric(axis)), key=lambda axis: len(axis["values"]))
    lines = next(axis for axis in axes if is_switch(axis))
    others = [axis for axis in axes if axis is not along and axis is not lines]
    at = {axis["name"]: index_in(query.get(axis["name"], ""), axis) for axis in others}
    measured = [metric for name in SHOWN for metric in data["metrics"] if metric["name"] == name]
    switch = name_axis(lines["name"])
    names = [(str(on).lower(), f"{switch} {'on' if on else 'off'}") for on in lines["values"]]
    columns = []
    for metric in measured:
        head = head_of(metric, name_metric(metric["name"]))
        columns.append((head, values_of(axes, metric, at, along["name"], lines["name"])))
    quantity = in_a_sentence(name_metric(measured[0]["name"]))
    what = f"With {names[1][1]}, {quantity} is lower"
    pairs = [(x, *pair) for x, pair in zip(along["values"], columns[0][1], strict=True)]
    return SweepView(
        selects=[select_of(axis, at[axis["name"]], name_axis(axis["name"])) for axis in others],
        along=titled(name_axis(along["name"]), along["unit"]),
        metrics=[head for head, _ in columns],
        lines=names,
        rows=[
            (
                significant(x),
                [
                    Cell(head.name, x, line, significant(value / head.divisor))
                    for head, values in columns
                    for (line, _), value in zip(names, values[place], strict=True)
                ],
            )
            for place, x in enumerate(along["values"])
        ],
        what=what,
        summary=summary_of(what, pairs, along["unit"]),
    )


def namer(schema: Mapping[str, Any] | None) -> Callable[[str], str]:
    """What the fields of a schema are called."""
    properties = (schema or {}).get("properties", {})
    return lambda name: label(name, properties.get(name))


def in_a_sentence(words: str) -> str:
    """TTFT p90, step time."""
    return words if words[:2].isupper() else words[:1].lower() + words[1:]


def head_of(metric: Mapping[str, Any], words: str) -> Head:
    """Times in the unit of the longest one of the whole grid, so that a slider changes no unit."""
    divisor, unit = 1, metric["unit"]
    if unit == "µs":
        values = [metric["values"]]
        while isinstance(values[0], list):
            values = [one for inner in values for one in inner]
        divisor, unit = time_unit(max(values))
    return Head(metric["name"], titled(words, unit), divisor)


def is_switch(axis: Mapping[str, Any]) -> bool:
    return all(isinstance(value, bool) for value in axis["values"])


def is_numeric(axis: Mapping[str, Any]) -> bool:
    return not is_switch(axis) and all(isinstance(value, (int, float)) for value in axis["values"])


def index_in(text: str, axis: Mapping[str, Any]) -> int:
    count = len(axis["values"])
    return (
        int(text) if text.isascii() and text.isdigit() and len(text) < 4 and int(text) < count else count // 2
    )


def values_of(
    axes: list[Mapping[str, Any]], metric: Mapping[str, Any], at: Mapping[str, int], along: str, lines: str
) -> list[tuple[float, float]]:
    """(value of false, value of true) along the axis."""

    def value(place: int, line: int) -> float:
        here = {**at, along: place, lines: line}
        values: Any = metric["values"]
        for axis in axes:
            values = values[here[axis["name"]]]
        return float(values)

    count = next(len(axis["values"]) for axis in axes if axis["name"] == along)
    return [(value(place, 0), value(place, 1)) for place in range(count)]


def select_of(axis: Mapping[str, Any], chosen: int, words: str) -> Select:
    choices = [
        Choice(str(index), figure_text(value, axis["unit"]), index == chosen)
        for index, value in enumerate(axis["values"])
    ]
    return Select(axis["name"], words, choices)


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
