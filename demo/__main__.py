"""A new learner's first evening, over the REST API only: `python -m demo`.

Starts Staffloop on a free port with a database of its own, registers, reads what there is to do, runs the graded lab
task with a prediction, answers the five questions, and prints what it earned. It knows nothing but what the API
answers: no fixture and no database is read here.

Exit 0 only if every run is graded, no invariant is broken and no report was reused.
"""

import sys
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from demo import agents, moe, multimodal
from demo.api import Api
from demo.showing import console, show_decision, show_result, show_scores
from demo.site import running_site

DECISIONS = {**moe.DECISIONS, **multimodal.DECISIONS, **agents.DECISIONS}

# What this learner believes: words of the question → words of the option it takes, and how sure it is (percent).
ANSWERS = {
    "671B": ("memory that holds the weights", 95),
    "32 ranks": ("as slow as the rank that prefills", 90),
    "screenshot": ("encodes the picture again before each send", 80),
    "new weights": ("prefix cache was not reset", 85),
    "long sessions": ("until that one saturates", 90),
}


def join_class(api: Api) -> dict[str, Any]:
    """Enrol in the first class that takes anyone, and return it."""
    offering = api.get("offerings/")["results"][0]
    api.post(f"offerings/{offering['slug']}/enrollments/")
    shown: dict[str, Any] = api.get(f"offerings/{offering['slug']}/")
    console.rule(f"[bold]{shown['course']['title']}")
    return shown


def planned(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks that this learner knows what to do about; the others are named and left."""
    for task in tasks:
        if task["slug"] not in DECISIONS:
            console.print(f"[yellow]not played:[/] {task['title']} (no decision for {task['slug']} in demo/)")
    return [task for task in tasks if task["slug"] in DECISIONS]


def play_task(api: Api, task: dict[str, Any]) -> dict[str, Any]:
    """Open an attempt, predict, run, wait for the grade and the figures. The graded run."""
    console.print(f"\n[bold]{task['title']}[/] ({float(task['points']):g} points)")
    place = api.post(task["attempts_url"])["url"]
    attempt = list(api.watch(place, lambda a: a["state"] != "preparing"))[-1]
    decision = DECISIONS[task["slug"]](attempt["visible"])
    show_decision(task, decision)
    run = api.post(attempt["runs_url"], {"task_attempt": attempt["public_id"], **decision})
    run = wait_for_grade(api, run["url"])
    show_result(run, task, api.get(f"labs/{task['lab']}/schemas/metrics/")["properties"])
    return run


def wait_for_grade(api: Api, place: str) -> dict[str, Any]:
    run: dict[str, Any] = {}
    columns = (
        TextColumn("  {task.description:<11}"),
        BarColumn(40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("queued", total=None)
        for run in api.watch(place, lambda r: r["state"] not in ("queued", "running")):
            steps = run["progress"]
            progress.update(bar, description=run["state"], completed=steps["done"], total=steps["total"])
            if not sys.stdout.isatty():
                console.print(f"  {run['state']:<11} step {steps['done']} of {steps['total'] or '?'}")
    if run["state"] == "graded":
        run = list(api.watch(place, lambda r: r["figures_ready"]))[-1]
    return run


def answer_quiz(api: Api, slug: str) -> dict[str, Any]:
    """Answer every question with a confidence and submit; the marked attempt."""
    attempt = api.post(f"quizzes/{slug}/attempts/")
    place = f"attempts/{attempt['public_id']}/"
    for question in attempt["questions"]:
        believed, sure = next(belief for words, belief in ANSWERS.items() if words in question["stem"])
        choice = next(o["choice"] for o in question["options"] if believed in o["text"])
        body = {"choice": choice, "confidence": sure, "sequence": question["response"]["sequence"] + 1}
        api.put(f"{place}responses/{question['position']}/", body)
    console.print(f"\n[bold]{api.get(place)['answered_text']}")
    marked: dict[str, Any] = api.post(f"{place}submission/")
    for question in marked["questions"]:
        result = question["result"]
        mark = "[green]✓[/]" if result["correct"] else "[red]✗[/]"
        console.print(f"  {mark} {question['position']}. {' '.join(result['feedback'].split())}")
    return marked


def complaints(run: dict[str, Any]) -> list[str]:
    """Why this run is no proof that the house stands."""
    if run["state"] != "graded":
        return [f"run {run['url']} is {run['state']}: {run['reason']}"]
    broken = [name for name, invariant in run["invariants"].items() if invariant["state"] == "broken"]
    return [f"the invariant {name} is broken" for name in broken] + ["a report was reused"] * run["reused"]


def main() -> int:
    with running_site() as base:
        console.print(f"Staffloop runs at {base}")
        api = Api(base)
        offering = join_class(api)
        runs = [play_task(api, task) for task in planned(api.get("tasks/")["results"])]
        for activity in offering["activities"]:
            if activity["kind"] == "quiz":
                answer_quiz(api, activity["slug"])
        show_scores(api, offering)
    wrong = [line for run in runs for line in complaints(run)] or (
        [] if runs else ["there was no task to run"]
    )
    for line in wrong:
        console.print(f"[red]{line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
