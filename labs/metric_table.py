"""A report's metrics as rows of a table: before and after, computed in this run or not."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from labs.labels import label, unit_of
from labs.presentation import figure_text

# Of a description: the table's columns say it already.
PLACEMENT_SUFFIX = re.compile(r",? *(contiguous|chosen setting)\.$")


@dataclass(frozen=True)
class MetricRow:
    """A single-number metric. `before` is the same under the baseline, where the lab reports one.

    is_computed: whether the run computed the part of the report to which it belongs.
    is_judged: whether a criterion read it, or its partner.
    """

    label: str
    help: str
    before: str
    after: str
    is_computed: bool = True
    is_judged: bool = False


def metric_rows(
    schema: Mapping[str, Any],
    metrics: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
    judged: Collection[str] = (),
) -> list[MetricRow]:
    """The scalars of a report, what was judged first, else in the schema's order; X and X_before share a row.

    Arrays are for figures. params: of the run, on which some units hang. judged: names of metrics.
    """
    parts = {
        name: part
        for name, part in schema["properties"].items()
        if part.get("type") in ("integer", "number") and name in metrics
    }
    partners = {name.replace("_before", "", 1): name for name in parts if "_before" in name}
    absent = parts_not_computed(parts, metrics)
    rows = []
    for name, part in parts.items():
        if "_before" in name and name.replace("_before", "", 1) in parts:
            continue
        unit, zero = unit_of(part, params or {}), part.get("zero", "")
        before = partners.get(name)
        told = part.get("description", "")
        if before and told.startswith("The same"):
            told = parts[before].get("description", told)
        rows.append(
            MetricRow(
                label=label(name, part),
                help=PLACEMENT_SUFFIX.sub(".", told),
                before=figure_text(metrics[before], unit, zero) if before else "",
                after=figure_text(metrics[name], unit, zero),
                is_computed=part.get("part") not in absent,
                is_judged=name in judged or before in judged,
            )
        )
    return sorted(rows, key=lambda row: not row.is_judged)


def parts_not_computed(fields: Mapping[str, Mapping[str, Any]], metrics: Mapping[str, Any]) -> set[str]:
    """The parts of a report whose metrics all hold what they are where a run does not compute them."""
    told = {
        field["part"]
        for name, field in fields.items()
        if "part" in field and metrics[name] != field["otherwise"]
    }
    return {field["part"] for field in fields.values() if "part" in field} - told
