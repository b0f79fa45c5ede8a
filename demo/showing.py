"""What the demo prints of decisions and results, in the words and units of the schemas, as pages show them."""

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.api import Api
from labs.labels import label
from labs.presentation import figure_text, labelled, parameter, significant

# Of a report's metrics, where it has them: what the lab is about.
SHOWN = ("max_over_mean_before_mean", "max_over_mean_mean", "sampling_floor", "speedup")

console = Console(width=None if sys.stdout.isatty() else 110)


def show_decision(task: dict[str, Any], decision: dict[str, Any]) -> None:
    """What is handed in: parameters, prediction, artefact, each by its schema of the task."""
    schemas = {"params": "open_parameters"}
    for name, values in decision.items():
        parts = task[schemas.get(name, name)]["properties"]
        told = (parameter(field, value, parts.get(field, {})) for field, value in values.items())
        console.print(
            f"  {name:<11} {'; '.join(f'{words}: {text}' for words, text in told)}",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )


def show_result(run: dict[str, Any], task: dict[str, Any], metrics: dict[str, Any]) -> None:
    """metrics: the properties of the lab's schema."""
    if run["state"] != "graded":
        console.print(f"  [red]{run['state']}[/]: {run['reason']}")
        return
    fields = task["prediction"]["properties"]
    for row in run["prediction_check"]:
        field, unit = row["field"], metrics[row["metric"]].get("unit", "")
        (words, predicted), (_, actual) = (
            labelled(field, row[what], unit, fields[field]) for what in ("predicted", "actual")
        )
        console.print(f"  predicted   {words}: {predicted}, came out {actual}")
    for name in SHOWN:
        if name in run["metrics"]:
            part = metrics[name]
            told = figure_text(run["metrics"][name], part.get("unit", ""))
            console.print(f"  {label(name, part):<27} {told}")
    for row in run["criteria"]:
        mark = "[green]✓[/]" if row["passed"] else "[yellow]·[/]"
        worth = (
            f"{float(row['earned']):g} of {float(row['points']):g}" if float(row["points"]) else "required"
        )
        console.print(f"  {mark} {row['title']}: {worth}")
        if row["feedback"]:
            console.print(f"      {row['feedback']}", style="dim")
    for figure in run["figures"]:
        console.print(
            f"  figure      {figure['title']}\n              {figure['url']}", style="dim", soft_wrap=True
        )


def show_scores(api: Api, offering: dict[str, Any]) -> None:
    table = Table(title=f"What {api.username} earned", title_justify="left")
    for column in ("activity", "score", "points", "of"):
        table.add_column(column, justify="left" if column == "activity" else "right")
    for activity in api.get(f"offerings/{offering['slug']}/")["activities"]:
        grade = activity["grade"]
        earned = ("–", "–")
        if grade:
            earned = figure_text(float(grade["score"]), "fraction"), significant(float(grade["points"]))
        table.add_row(activity["title"], *earned, significant(float(activity["points"])))
    console.print()
    console.print(table)
