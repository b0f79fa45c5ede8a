"""What the demo prints of results."""

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.api import Api

# Of a report's metrics, where it has them: what the lab is about.
SHOWN = ("max_over_mean_before_mean", "max_over_mean_mean", "sampling_floor", "speedup")

console = Console(width=None if sys.stdout.isatty() else 110)


def show_result(run: dict[str, Any]) -> None:
    if run["state"] != "graded":
        console.print(f"  [red]{run['state']}[/]: {run['reason']}")
        return
    for row in run["prediction_check"]:
        console.print(f"  predicted   {row['field']} {row['predicted']}, came out {row['actual']}")
    for name in SHOWN:
        if name in run["metrics"]:
            console.print(f"  {name:<27} {run['metrics'][name]:.3f}")
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
        earned = (grade["score"], grade["points"]) if grade else ("–", "–")
        table.add_row(activity["title"], *earned, activity["points"])
    console.print()
    console.print(table)
