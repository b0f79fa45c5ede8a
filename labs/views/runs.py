"""A run: its progress while it computes, and its result."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from labs import services
from labs.models import Figure, Run
from labs.page_forms import label
from labs.presentation import figure_text, labelled, metric_rows, significant
from labs.rubric import compare_prediction
from labs.schemas import lab_schema, prediction_schema
from quiz.errors import Refusal
from quiz.models import Learner
from quiz.views.people import learner_of

# A page holds this many rows of a figure's table; the CSV has all.
TABLE_ROWS = 200


def own_runs(learner: Learner) -> QuerySet[Run]:
    return Run.objects.for_learner(learner).select_related(
        "lab", "task_attempt__task__activity", "task_attempt__offering__course"
    )


@require_safe
@login_required
def run(request: HttpRequest, public_id: str) -> HttpResponse:
    row = get_object_or_404(own_runs(learner_of(request)), public_id=public_id)
    context: dict[str, Any] = {
        "run": row,
        "attempt": row.task_attempt,
        "here": "home" if row.task_attempt else "labs",
        "active": not row.is_terminal,
        **(result(row) if row.report else {}),
    }
    return render(request, "labs/run.html", context)


@require_POST
@login_required
def cancel(request: HttpRequest, public_id: str) -> HttpResponse:
    row = get_object_or_404(own_runs(learner_of(request)), public_id=public_id)
    try:
        services.cancel_run(run=row)
    except Refusal as exc:
        messages.error(request, exc.detail)
    return redirect("run-page", row.public_id)


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
        "figures": [
            show_figure(figure) for figure in run.figures.defer("spec", "svg_light", "svg_dark", "png")
        ],
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
    columns: list[tuple[str, bool]]  # head, whether it holds numbers
    rows: list[list[tuple[str, bool]]]
    total: int


def show_figure(figure: Figure) -> ShownFigure:
    table: list[dict[str, Any]] = figure.table
    names = list(table[0]) if table else []
    numeric = {name: all(is_figure(row.get(name)) for row in table) for name in names}
    return ShownFigure(
        figure=figure,
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
