"""A lab's sweep as a page without script shows it: selects for the axes, one cut of the grid as a table, and words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from labs.labels import label
from labs.page_forms import Choice
from labs.presentation import figure_text, parameter, significant, time_unit, titled

# What the page draws and lists of a sweep; its data has all metrics.
SHOWN = (
    "step_time_us",
    "max_over_mean_mean",
    "server_later_us",
    "ttft_p90_us",
    "hit_rate",
    "tokens_per_gpu_s",
)
# Two lines that differ by less are called equal: another seed moves them by as much.
LEAST_EFFECT = 0.05


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
    line: str  # "false", "true" or a name, as JSON writes them
    text: str


@dataclass(frozen=True)
class SweepView:
    """One cut of a sweep.

    along: the drawn axis. lines: (value, name) of each. scene: (label, value) of what all points share and is not as
    by default. what: the beginning of the summary, whose end a slider changes.
    """

    selects: list[Select]
    along: str
    metrics: list[Head]
    lines: list[tuple[str, str]]
    rows: list[tuple[str, list[Cell]]]
    scene: list[tuple[str, str]]
    what: str
    least_effect: float
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
    lines = next(axis for axis in axes if axis["name"] == data["lines"])
    numeric = (axis for axis in axes if is_numeric(axis) and axis is not lines)
    along = max(numeric, key=lambda axis: len(axis["values"]))
    others = [axis for axis in axes if axis is not along and axis is not lines]
    at = {axis["name"]: index_in(query.get(axis["name"], ""), axis) for axis in others}
    measured = [metric for name in SHOWN for metric in data["metrics"] if metric["name"] == name]
    names = [(line_key(value), line_name(value, lines, name_axis)) for value in lines["values"]]
    columns = []
    for metric in measured:
        head = head_of(metric, name_metric(metric["name"]))
        columns.append((head, values_of(axes, metric, at, along, lines)))
    quantity = name_metric(measured[0]["name"])
    if is_switch(lines):
        what = f"With {names[1][1]}, {in_a_sentence(quantity)} is more than {LEAST_EFFECT:.0%} lower"
        summary = crossover_of(what, list(zip(along["values"], columns[0][1], strict=True)), along["unit"])
    else:
        what = f"{quantity} is lowest, or within {LEAST_EFFECT:.0%} of that,"
        told = [name for _, name in names]
        ends = [(along["values"][end], lowest(columns[0][1][end], told)) for end in (0, -1)]
        summary = ends_of(what, ends, along["unit"])
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
        scene=scene_of(data.get("params", {}), params),
        what=what,
        least_effect=LEAST_EFFECT,
        summary=summary,
    )


def namer(schema: Mapping[str, Any] | None) -> Callable[[str], str]:
    """What the fields of a schema are called."""
    properties = (schema or {}).get("properties", {})
    return lambda name: label(name, properties.get(name))


def scene_of(shared: Mapping[str, Any], params: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """(label, value) of what all points of a sweep share and is not as by default."""
    properties = (params or {}).get("properties", {})
    return [
        parameter(name, shared[name], part)
        for name, part in properties.items()
        if name in shared and shared[name] != part.get("default")
    ]


def line_key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def line_name(value: Any, axis: Mapping[str, Any], name_axis: Callable[[str], str]) -> str:
    if isinstance(value, bool):
        return f"{name_axis(axis['name'])} {'on' if value else 'off'}"
    return figure_text(value, axis["unit"])


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
    axes: list[Mapping[str, Any]],
    metric: Mapping[str, Any],
    at: Mapping[str, int],
    along: Mapping[str, Any],
    lines: Mapping[str, Any],
) -> list[list[float]]:
    """[along][line] values where the selects stand."""

    def value(place: int, line: int) -> float:
        here = {**at, along["name"]: place, lines["name"]: line}
        values: Any = metric["values"]
        for axis in axes:
            values = values[here[axis["name"]]]
        return float(values)

    return [
        [value(place, line) for line in range(len(lines["values"]))] for place in range(len(along["values"]))
    ]


def select_of(axis: Mapping[str, Any], chosen: int, words: str) -> Select:
    choices = [
        Choice(str(index), figure_text(value, axis["unit"]), index == chosen)
        for index, value in enumerate(axis["values"])
    ]
    return Select(axis["name"], words, choices)


def crossover_of(what: str, pairs: list[tuple[Any, list[float]]], unit: str) -> str:
    """From where on, to the end, the line of true is lower than that of false by more than LEAST_EFFECT.

    pairs: (x, [value of false, value of true]) along the axis.
    """
    not_lower = [place for place, (_, (off, on)) in enumerate(pairs) if not on < off * (1 - LEAST_EFFECT)]
    if not not_lower:
        return f"{what} at every size of this grid."
    last = not_lower[-1]
    if last == len(pairs) - 1:
        if lower := len(pairs) - len(not_lower):
            largest = significant(pairs[last][0])
            return f"{what} at {lower} of the {len(pairs)} sizes of this grid, not at {largest} {unit}."
        return f"{what} nowhere on this grid."
    return (
        f"{what} from {significant(pairs[last + 1][0])} {unit} on, not yet at {significant(pairs[last][0])}."
    )


def lowest(values: list[float], names: list[str]) -> list[str]:
    """Names of the least value and of those that are at most LEAST_EFFECT above it, from the least on."""
    most = min(values) * (1 + LEAST_EFFECT)
    return [name for value, name in sorted(zip(values, names, strict=True)) if value <= most]


def ends_of(what: str, ends: list[tuple[Any, list[str]]], unit: str) -> str:
    """ends: (x, who is lowest there) of the first and the last x."""
    (first, there), (last, then) = ((significant(x), in_words(names)) for x, names in ends)
    return f"{what} with {there} at {first} {unit}, with {then} at {last}."


def in_words(names: list[str]) -> str:
    """a; a and b; a, b and c."""
    *some, last = names
    return f"{', '.join(some)} and {last}" if some else last
