"""Numbers as people read them: metrics before and after, drawn scenarios, sheets of criteria."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.criteria import is_number
from labs.page_forms import label

HEAT_LEVELS = 8
# A longer text is named by its length.
LONGEST_SHOWN = 200
# Of a description: the table's columns say it already.
PLACEMENT_SUFFIX = re.compile(r",? *(contiguous|chosen setting)\.$")
BYTE_STEPS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def figure_text(value: Any, unit: str = "") -> str:
    """A value with its unit: 2550136832 bytes → 2.55 GB; 0.034 fraction → 3.4%; 3 GPU index → GPU 3."""
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if len(value) <= LONGEST_SHOWN else f"a text of {len(value):,} characters"
    if isinstance(value, list):
        return matrix_text(value)
    if unit == "0 or 1":
        return "yes" if value else "no"
    if unit == "fraction":
        return f"{significant(100 * value)}%"
    if unit.startswith("GPU index"):
        return f"GPU {value}"
    if unit == "bytes":
        return bytes_text(value)
    if unit in ("", "ratio", "count") or unit.endswith("index"):
        return significant(value)
    return f"{significant(value)}{'' if unit == '%' else ' '}{unit}"


def matrix_text(rows: list[Any]) -> str:
    """A table of numbers by its size."""
    if is_matrix(rows):
        return f"{len(rows)} × {max(len(row) for row in rows)} numbers"
    return ", ".join(figure_text(one) for one in rows)


def queue_text(before: int, wait_s: float | None, problem: str = "") -> str:
    """What a queued run waits for. before: runs served before it; wait_s: None where `problem` says why."""
    place = {0: "Yours is the next run", 1: "1 run before yours"}.get(before, f"{before:,} runs before yours")
    if wait_s is None:
        return f"{place}. {problem}".rstrip()
    return f"{place}; {duration_text(wait_s)}."


def duration_text(seconds: float) -> str:
    if seconds < 1:
        return "a moment"
    return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"


def labelled(name: str, value: Any, unit: str = "") -> tuple[str, str]:
    """(label, text) of a named value; a unit that the label names already is not said twice."""
    words = label(name)
    said = unit != "bytes" and unit.casefold() in words.casefold().split()
    return words, figure_text(value, "" if said else unit)


def bytes_text(value: float) -> str:
    for size, unit in BYTE_STEPS:
        if abs(value) >= size:
            return f"{significant(value / size)} {unit}"
    return f"{significant(value)} bytes"


def significant(value: float) -> str:
    """Whole numbers in full with separators; others with four significant digits, never as an exponent."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    size = abs(value)
    places = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    if size < 0.01:
        return f"{value:.2g}" if size >= 1e-4 else "below 0.0001"
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class MetricRow:
    """A single-number metric. `before` is the same under the baseline, where the lab reports one."""

    label: str
    help: str
    before: str
    after: str


def metric_rows(schema: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[MetricRow]:
    """The scalars of a report in the schema's order; X and X_before share a row. Arrays are for figures."""
    parts = {
        name: part
        for name, part in schema["properties"].items()
        if part.get("type") in ("integer", "number") and name in metrics
    }
    partners = {name.replace("_before", "", 1): name for name in parts if "_before" in name}
    rows = []
    for name, part in parts.items():
        if "_before" in name and name.replace("_before", "", 1) in parts:
            continue
        unit = part.get("unit", "")
        before = partners.get(name)
        told = part.get("description", "")
        if before and told.startswith("The same"):
            told = parts[before].get("description", told)
        rows.append(
            MetricRow(
                label=label(name),
                help=PLACEMENT_SUFFIX.sub(".", told),
                before=figure_text(metrics[before], unit) if before else "",
                after=figure_text(metrics[name], unit),
            )
        )
    return rows


@dataclass(frozen=True)
class Cell:
    text: str
    heat: int  # 0 … HEAT_LEVELS


@dataclass(frozen=True)
class HeatTable:
    """Numbers as a table whose cells are shaded by size; row and column heads are counted from 0."""

    title: str
    help: str
    row_head: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]


@dataclass(frozen=True)
class Fact:
    label: str
    value: str


@dataclass(frozen=True)
class Share:
    label: str
    text: str
    percent: float  # of the largest: the length of its bar


@dataclass(frozen=True)
class Series:
    """Numbers of one kind by name, drawn as bars up to the largest."""

    title: str
    shares: list[Share]


@dataclass(frozen=True)
class RecordTable:
    """Rows of a log: columns have names, and a cell may be a number or a word."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Scenario:
    facts: list[Fact]
    series: list[Series]
    tables: list[HeatTable]
    records: list[RecordTable]
    notes: list[Fact]


# What the axes of an array are called, by its name in the visible part: (rows, columns).
AXES = {
    "observed_load": ("Layer", "Expert"),
    "balancer_placement": ("Layer", "Slot"),
    "placement": ("Layer", "Slot"),
}
# Tables whose numbers name things: none is more than another, so none is shaded.
NAMING = ("balancer_placement", "placement")
LONG_TEXT = 40


def scenario(visible: Mapping[str, Any], params: Mapping[str, Any]) -> Scenario:
    """The visible part of an instance: single values, numbers by name, tables of numbers or records, and sentences.

    params: the lab's parameter schema, for the units of names that are parameters.
    """
    drawn = Scenario([], [], [], [], [])
    properties = params.get("properties", {})
    for name, value in visible.items():
        unit = properties.get(name, {}).get("unit") or unit_in(name)
        if isinstance(value, Mapping) and value and all(is_number(one) for one in value.values()):
            largest = max(*value.values(), 0) or 1
            shares = [
                Share(label(key), figure_text(one, unit), round(100 * max(one, 0) / largest, 2))
                for key, one in value.items()
            ]
            drawn.series.append(Series(label(name), shares))
        elif is_matrix(value):
            drawn.tables.append(heat_table(name, value))
        elif has_a_head(value):
            drawn.records.append(record_table(name, value))
        elif isinstance(value, str) and len(value) > LONG_TEXT:
            drawn.notes.append(Fact(label(name), value))
        elif isinstance(value, list):
            drawn.facts.append(Fact(label(name), ", ".join(figure_text(one, unit) for one in value)))
        else:
            drawn.facts.append(Fact(*labelled(name, value, unit)))
    return drawn


def unit_in(name: str) -> str:
    for suffix, unit in (("_bytes", "bytes"), ("_gb", "GB"), ("_percent", "%"), ("_us", "µs"), ("_ms", "ms")):
        if name.endswith(suffix):
            return unit
    return ""


def is_matrix(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(row, list) and row and all(is_number(one) for one in row) for row in value)
    )


def has_a_head(value: Any) -> bool:
    """Whether it is a list of rows whose first one names the columns."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(row, list) and len(row) == len(value[0]) for row in value)
        and all(isinstance(name, str) for name in value[0])
    )


def record_table(name: str, value: list[list[Any]]) -> RecordTable:
    """value: the names of the columns, then the rows. Names stay as they are, since a prompt speaks of them."""
    head, *rows = value
    units = [unit_in(column) for column in head]
    texts = [[figure_text(one, unit) for one, unit in zip(row, units, strict=True)] for row in rows]
    return RecordTable(title=label(name), columns=list(head), rows=texts)


def heat_table(name: str, matrix: list[list[float]]) -> HeatTable:
    """matrix: [rows][columns]. Shading runs from 0 to the largest number of the whole table."""
    row_head, column_head = AXES.get(name, ("Row", "Column"))
    largest = 0.0 if name in NAMING else max(max(row) for row in matrix)
    shading = "" if name in NAMING else "; darker is more"
    return HeatTable(
        title=label(name),
        help=f"Rows: {row_head.lower()}s; columns: {column_head.lower()}s{shading}.",
        row_head=row_head,
        columns=[f"{column_head} {index}" for index in range(max(len(row) for row in matrix))],
        rows=[
            (f"{row_head} {index}", [Cell(significant(one), heat(one, largest)) for one in row])
            for index, row in enumerate(matrix)
        ],
    )


def heat(value: float, largest: float) -> int:
    return 0 if largest <= 0 or value <= 0 else max(1, round(HEAT_LEVELS * value / largest))
