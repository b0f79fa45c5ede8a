"""What a run's page shows of its report: criteria, prediction, figures, metrics, where it comes from."""

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from labs.api.schemas import lab_schema, prediction_schema
from labs.models import Figure, Run
from labs.page_forms import label
from labs.presentation import figure_text, labelled, metric_rows, significant
from labs.rubric import compare_prediction
from labs.views.binding import what_binds
from labs.views.differences import difference_of

# A page holds this many rows of a figure's table; the CSV has all.
TABLE_ROWS = 200


def result(run: Run) -> dict[str, Any]:
    """What the page shows of a report."""
    report = run.report or {}
    metrics = lab_schema(run.lab.job, "metrics")
    rows = metric_rows(metrics, report["metrics"])
    return {
        "sheet": run.sheet,
        "prediction_rows": prediction_rows(run, metrics),
        "compared": [row for row in rows if row.before],
        "others": [row for row in rows if not row.before],
        "invariants": [(label(name), one) for name, one in report["invariants"].items()],
        "binding": what_binds(report["metrics"]),
        "difference": difference_of(run),
        "figures": figure_rows(run),
        "awaited": [] if run.figures.exists() else run.lab.job.figures,
        "params": shown_params(run),
        "provenance": [(label(name), figure_text(value)) for name, value in (run.provenance or {}).items()],
    }


def shown_params(run: Run) -> list[tuple[str, str]]:
    properties = lab_schema(run.lab.job, "parameters")["properties"]
    return [
        labelled(name, value, properties.get(name, {}).get("unit", "")) for name, value in run.params.items()
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
        PredictionRow(
            label(row["field"]),
            fields[row["field"]].get("description", ""),
            *(
                figure_text(value, metrics["properties"][row["metric"]].get("unit", ""))
                for value in (row["predicted"], row["actual"])
            ),
        )
        for row in rows
    ]


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
    originals = {figure.name: figure for figure in drawn(run.varied_from)} if run.varied_from else {}
    rows = []
    for figure in drawn(run):
        before = originals.get(figure.name)
        if before is None or run.varied_from is None:
            rows.append([show_figure(figure, run)])
        else:
            rows.append(
                [
                    show_figure(before, run.varied_from, "Original run", "original-"),
                    show_figure(figure, run, "This run"),
                ]
            )
    return rows


def drawn(run: Run) -> QuerySet[Figure]:
    return run.figures.defer("spec", "svg_light", "svg_dark", "png")


def show_figure(figure: Figure, run: Run, whose: str = "", prefix: str = "") -> ShownFigure:
    table: list[dict[str, Any]] = figure.table
    names = list(table[0]) if table else []
    numeric = {name: all(is_figure(row.get(name)) for row in table) for name in names}
    return ShownFigure(
        figure=figure,
        run=run,
        id=f"figure-{prefix}{figure.name}",
        whose=whose,
        columns=[(label(name), numeric[name]) for name in names],
        rows=[[(cell_text(row.get(name)), numeric[name]) for name in names] for row in table[:TABLE_ROWS]],
        total=len(table),
    )


def is_figure(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def cell_text(value: Any) -> str:
    if value is None:
        return ""
    return significant(value) if is_figure(value) else figure_text(value)
