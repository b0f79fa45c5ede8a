"""What a run's page shows of its report: criteria, prediction, figures, metrics, where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from labs.api.schemas import lab_schema, prediction_schema
from labs.labels import label
from labs.metric_table import metric_rows
from labs.models import Figure, Run
from labs.presentation import UNITS, figure_text, is_bare, labelled, parameter, significant, titled, unit_in
from labs.rubric import compare_prediction
from labs.views.binding import what_binds
from labs.views.differences import difference_of
from labs.views.judged import criteria_of, is_beside, judged_names
from labs.views.lost import lost_requests
from labs.views.trace_choices import named

# A page holds this many rows of a figure's table; the CSV has all.
TABLE_ROWS = 200


def result(run: Run) -> dict[str, Any]:
    """What the page shows of a report."""
    report = run.report or {}
    metrics = lab_schema(run.lab.job, "metrics")
    judged = judged_names(run.sheet)
    rows = metric_rows(metrics, report["metrics"], run.params, judged)
    return {
        "sheet": run.sheet,
        "criteria": criteria_of(run.sheet, metrics["properties"], run.params),
        "judged_beside": is_beside(judged, metrics["properties"]),
        "prediction_rows": prediction_rows(run, metrics),
        "compared": [row for row in rows if row.before],
        "others": [row for row in rows if not row.before and row.is_computed],
        "not_computed": [row for row in rows if not row.before and not row.is_computed],
        "invariants": [(label(name), one) for name, one in report["invariants"].items()],
        "lost": lost_requests(report["metrics"], run.params),
        "binding": what_binds(run.lab.slug, report["metrics"]),
        "difference": difference_of(run),
        "figures": figure_rows(run),
        "awaited": [] if run.figures.exists() else run.lab.job.figures,
        "params": shown_params(run),
        "provenance": [
            labelled(name, value, unit_in(name)) for name, value in (run.provenance or {}).items()
        ],
    }


def shown_params(run: Run) -> list[tuple[str, str]]:
    properties = lab_schema(run.lab.job, "parameters")["properties"]
    return [
        parameter(name, named(run, value), properties.get(name, {})) for name, value in run.params.items()
    ]


@dataclass(frozen=True)
class PredictionRow:
    label: str
    help: str
    predicted: str
    actual: str


def prediction_rows(run: Run, metrics: dict[str, Any]) -> list[PredictionRow]:
    if run.task_attempt is None or run.prediction is None or run.report is None:
        return []
    kind = run.task_attempt.task.task_kind
    fields = prediction_schema(kind)["properties"]
    rows = compare_prediction(run.prediction, kind.prediction_metrics, run.report["metrics"])
    return [
        prediction_row(row, fields[row["field"]], metrics["properties"][row["metric"]].get("unit", ""))
        for row in rows
    ]


def prediction_row(row: Mapping[str, Any], part: Mapping[str, Any], unit: str) -> PredictionRow:
    (words, predicted), (_, actual) = (
        labelled(row["field"], row[what], unit, part) for what in ("predicted", "actual")
    )
    return PredictionRow(words, part.get("description", ""), predicted, actual)


@dataclass(frozen=True)
class ShownFigure:
    figure: Figure
    run: Run
    id: str  # unique on the page
    whose: str  # "Original run" or "This run" where two stand side by side
    columns: list[tuple[str, bool]]  # head, whether it holds numbers
    rows: list[list[tuple[str, bool]]]
    total: int


def figure_rows(run: Run) -> list[list[ShownFigure]]:
    """One figure a row; of a varied run, the original's beside it."""
    metrics = lab_schema(run.lab.job, "metrics")["properties"]
    originals = {figure.name: figure for figure in drawn(run.varied_from)} if run.varied_from else {}
    rows = []
    for figure in drawn(run):
        before = originals.get(figure.name)
        if before is None or run.varied_from is None:
            rows.append([show_figure(figure, run, metrics)])
        else:
            rows.append(
                [
                    show_figure(before, run.varied_from, metrics, "Original run", "original-"),
                    show_figure(figure, run, metrics, "This run"),
                ]
            )
    return rows


def drawn(run: Run) -> QuerySet[Figure]:
    return run.figures.defer("spec", "svg_light", "svg_dark", "png")


def show_figure(
    figure: Figure, run: Run, metrics: Mapping[str, Any], whose: str = "", prefix: str = ""
) -> ShownFigure:
    """metrics: the report's fields, for columns that are called like one."""
    table: list[dict[str, Any]] = figure.table
    names = list(table[0]) if table else []
    numeric = {name: all(is_figure(row.get(name)) for row in table) for name in names}
    units = {name: column_unit(name, metrics) for name in names}
    return ShownFigure(
        figure=figure,
        run=run,
        id=f"figure-{prefix}{figure.name}",
        whose=whose,
        columns=[(column_head(name, metrics.get(name), units[name]), numeric[name]) for name in names],
        rows=[
            [(cell_text(row.get(name), units[name]), numeric[name]) for name in names]
            for row in table[:TABLE_ROWS]
        ],
        total=len(table),
    )


def is_figure(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def column_unit(name: str, metrics: Mapping[str, Any]) -> str:
    """Of a figure's column: that of the metric it is called like, or what its name spells."""
    if name.endswith("share"):
        return "fraction"
    return metrics.get(name, {}).get("unit") or UNITS.get(name) or unit_in(name)


def column_head(name: str, part: Mapping[str, Any] | None, unit: str) -> str:
    """TTFT (ms). A column that is called by its unit alone is headed by it; a share's cells say theirs."""
    if name in UNITS:
        return unit
    return label(name, part) if unit == "fraction" or is_bare(unit) else titled(label(name, part), unit)


def cell_text(value: Any, unit: str = "") -> str:
    """A number in the unit of its column's head; a share as a percentage."""
    if value is None:
        return ""
    return significant(value) if is_figure(value) and unit != "fraction" else figure_text(value, unit)
