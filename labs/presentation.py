"""Numbers as people read them, and drawn scenarios."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.criteria import is_number
from labs.labels import label

HEAT_LEVELS = 8
# A longer text is named by its length.
LONGEST_SHOWN = 200
# From so many µs on a time is told in the larger unit: in full digits none reaches 1,000 of the smaller one.
TIME_STEPS = ((999_950, 10**6, "s"), (999.95, 10**3, "ms"))
# Units that are counted, and are said of one without their last letter.
COUNTED = re.compile(r"(\w{3,}|GPU)s")
BYTE_STEPS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
# Of a unit: from here on it is told rather than the smaller one, of which 999.95 would be written as 1,000.
NEARLY_ONE = 0.99995


def figure_text(value: Any, unit: str = "", zero: str = "") -> str:
    """A value with its unit: 2550136832 bytes → 2.55 GB; 0.034 fraction → 3.4%; 3 GPU index → GPU 3.

    zero: what 0 means, where a schema says that it is no amount.
    """
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if zero and value == 0:
        return zero
    if isinstance(value, str):
        return value if len(value) <= LONGEST_SHOWN else f"a text of {len(value):,} characters"
    if isinstance(value, list):
        return matrix_text(value)
    if isinstance(value, Mapping):
        return record_text(value)
    if unit == "0 or 1":
        return "yes" if value else "no"
    if unit == "fraction":
        return f"{significant(100 * value)}%"
    if unit.startswith("GPU index"):
        return f"GPU {value:.0f}"
    if unit in ("bytes", "bytes/s"):
        return bytes_text(value) + unit.removeprefix("bytes")
    if unit == "µs":
        return time_text(value)
    if is_bare(unit):
        return significant(value)
    if value == 1 and COUNTED.fullmatch(unit):
        unit = unit[:-1]
    return f"{significant(value)}{'' if unit == '%' else ' '}{unit}"


def is_bare(unit: str) -> bool:
    """Whether a number is shown without it."""
    return unit in ("", "ratio", "count") or unit.endswith("index")


def matrix_text(rows: list[Any]) -> str:
    """A table of numbers by its size."""
    if is_matrix(rows):
        return f"{len(rows)} × {max(len(row) for row in rows)} numbers"
    return ", ".join(figure_text(one) for one in rows)


def record_text(values: Mapping[str, Any]) -> str:
    """Named values in one line; what is not set is left out."""
    told = [
        f"{label(name)}: {figure_text(one, unit_in(name))}" for name, one in values.items() if one is not None
    ]
    return ", ".join(told) or "nothing"


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


def labelled(name: str, value: Any, unit: str = "", part: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """(label, text) of a named value; a unit that the label names already is not said twice.

    part: what a schema says of it, its label before all.
    """
    words = label(name, part)
    said = unit != "bytes" and unit.casefold() in words.casefold().split()
    return words, figure_text(value, "" if said else unit, (part or {}).get("zero", ""))


def titled(words: str, unit: str) -> str:
    """With its unit, once: Step time (µs)."""
    return words if not unit or unit.casefold() in words.casefold().split() else f"{words} ({unit})"


def parameter(name: str, value: Any, part: Mapping[str, Any]) -> tuple[str, str]:
    """(label, text) of what a run was asked for; part: what the schema says of it."""
    if value in (None, ""):
        return label(name, part), "none"
    return labelled(name, value, part.get("unit", ""), part)


def time_text(value_us: float) -> str:
    """A time below 1,000 µs in µs, below 1,000 ms in ms, else in s."""
    size, unit = time_unit(value_us)
    return f"{significant(value_us / size)} {unit}"


def time_unit(longest_us: float) -> tuple[int, str]:
    """(µs in it, its name) of the unit in which times up to this one are told."""
    return next(((size, unit) for least, size, unit in TIME_STEPS if abs(longest_us) >= least), (1, "µs"))


def bytes_text(value: float) -> str:
    for size, unit in BYTE_STEPS:
        if abs(value) >= NEARLY_ONE * size:
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


def scenario(
    visible: Mapping[str, Any], params: Mapping[str, Any], metrics: Mapping[str, Any] | None = None
) -> Scenario:
    """The visible part of an instance: single values, numbers by name, tables of numbers or records, and sentences.

    params, metrics: the lab's schemas, for the units of names that are theirs.
    """
    drawn = Scenario([], [], [], [], [])
    properties, measured = params.get("properties", {}), (metrics or {}).get("properties", {})
    for name, value in visible.items():
        part = properties.get(name, {})
        unit, words = part.get("unit") or unit_in(name) or metric_unit(name, measured), label(name, part)
        if isinstance(value, Mapping) and (unit or are_comparable(value)) and is_series(value):
            largest = max(*value.values(), 0) or 1
            shares = [
                Share(
                    label(key), figure_text(one, unit or unit_in(key)), round(100 * max(one, 0) / largest, 2)
                )
                for key, one in value.items()
            ]
            drawn.series.append(Series(words, shares))
        elif is_matrix(value):
            drawn.tables.append(heat_table(name, value))
        elif has_a_head(value):
            drawn.records.append(record_table(name, value))
        elif isinstance(value, str) and len(value) > LONG_TEXT:
            drawn.notes.append(Fact(words, value))
        elif isinstance(value, list):
            drawn.facts.append(Fact(words, ", ".join(figure_text(one, unit) for one in value)))
        else:
            drawn.facts.append(Fact(*labelled(name, value, unit, part)))
    return drawn


def metric_unit(name: str, metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """Of a value that is called like a metric, or has one more word before it: today_interactivity_p10."""
    _, _, rest = name.partition("_")
    part = metrics.get(name) or metrics.get(rest) or {}
    return str(part.get("unit", ""))


def is_series(values: Mapping[str, Any]) -> bool:
    """A bar says how numbers compare: one alone has none."""
    return len(values) > 1 and all(is_number(one) for one in values.values())


def are_comparable(values: Mapping[str, Any]) -> bool:
    """Whether all are told in one unit, as far as their names say, or none has any."""
    counted = {"tokens" if name.endswith("tokens") else unit_in(name) for name in values}
    return len(counted) <= 1


# By how a name spells it, wherever in the name: kv_gb_per_replica, step_us_with_1000_prefill_tokens.
UNITS = {
    "bytes": "bytes",
    "gb": "GB",
    "mb": "MB",
    "kb": "kB",
    "percent": "%",
    "us": "µs",
    "ms": "ms",
    "s": "s",
    "px": "px",
}
UNIT_IN_NAME = re.compile(r"(?<!_per)_(gb|mb|kb|percent|us|ms|s|px|bytes(?=$|_per_s$))(_per_s)?(?=_|$)")


def unit_in(name: str) -> str:
    found = UNIT_IN_NAME.search(name)
    return UNITS[found[1]] + ("/s" if found[2] else "") if found else ""


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
    units = ["" if column.endswith("_s") else unit_in(column) for column in head]
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
