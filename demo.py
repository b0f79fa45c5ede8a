"""A new learner's first evening, over the REST API only: `make demo`.

Starts Staffloop on a free port with a database of its own, registers, reads what there is to do, runs the graded lab
task with a prediction, answers the five questions, and prints what it earned. It knows nothing but what the API
answers: no fixture and no database is read here.

Exit 0 only if every run is graded, no invariant is broken and no report was reused.
"""

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent
PATIENCE_S = 300

# What this learner believes: words of the question → words of the option it takes, and how sure it is (percent).
ANSWERS = {
    "671B": ("memory that holds the weights", 95),
    "32 ranks": ("as slow as the rank that prefills", 90),
    "screenshot": ("encodes the picture again before each send", 80),
    "new weights": ("prefix cache was not reset", 85),
    "long sessions": ("until that one saturates", 90),
}

console = Console(width=None if sys.stdout.isatty() else 110)


class Api:
    """A new learner's account; exits with the problem document where a call is refused."""

    def __init__(self, base: str) -> None:
        self.http = httpx.Client(base_url=f"{base}/api/v1/", timeout=30, trust_env=False)
        self.username = f"demo-{secrets.token_hex(4)}"
        credentials = {"username": self.username, "password": secrets.token_urlsafe(12)}
        self.post("learners/", credentials)
        self.http.headers["Authorization"] = f"Bearer {self.post('tokens/', credentials)['token']}"

    def get(self, path: str) -> Any:
        return self.checked(self.http.get(path)).json()

    def post(self, path: str, body: Any = None) -> Any:
        return self.checked(self.http.post(path, json=body or {})).json()

    def put(self, path: str, body: Any) -> Any:
        return self.checked(self.http.put(path, json=body)).json()

    def checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_error:
            sys.exit(f"{response.request.method} {response.url} → {response.status_code}: {response.text}")
        return response

    def watch(self, path: str, done: Callable[[Any], bool]) -> Iterator[Any]:
        """The resource at every change until `done` holds of it; an unchanged one answers 304."""
        headers: dict[str, str] = {}
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            response = self.http.get(path, headers=headers)
            if response.status_code != 304:
                resource = self.checked(response).json()
                headers = {"If-None-Match": response.headers["ETag"]}
                yield resource
                if done(resource):
                    return
            time.sleep(0.2)
        sys.exit(f"{path}: not done within {PATIENCE_S} s")


@contextmanager
def running_site() -> Iterator[str]:
    """`manage.py serve` on a free port with a database of its own; yields its URL and ends it afterwards."""
    environment = {**os.environ, "STAFFLOOP_VAR": str(ROOT / "var" / "demo"), "LOG_LEVEL": "WARNING"}
    for name in ("DATABASE_URL", "BROKER_URL", "SECRET_KEY"):
        environment.pop(name, None)
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "bootstrap"], env=environment, check=True, stdout=subprocess.DEVNULL)
    server = subprocess.Popen(
        [*manage, "serve", "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if found := re.search(r"http://\S+", line):
                yield found.group().rstrip("/")
                break
        else:
            sys.exit("the site did not start; its messages stand above")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


def join_class(api: Api) -> dict[str, Any]:
    """Enrol in the first class that takes anyone, and return it."""
    offering = api.get("offerings/")["results"][0]
    api.post(f"offerings/{offering['slug']}/enrollments/")
    shown: dict[str, Any] = api.get(f"offerings/{offering['slug']}/")
    console.rule(f"[bold]{shown['course']['title']}")
    return shown


def play_task(api: Api, task: dict[str, Any]) -> dict[str, Any]:
    """Open an attempt, predict, run, wait for the grade and the figures. The graded run."""
    console.print(f"\n[bold]{task['title']}[/] ({task['points']} points)")
    place = api.post(task["attempts_url"])["url"]
    attempt = list(api.watch(place, lambda a: a["state"] != "preparing"))[-1]
    decision = DECISIONS[task["slug"]](attempt["visible"])
    for name, value in decision.items():
        console.print(f"  {name:<11} {value}", soft_wrap=True)
    run = api.post(attempt["runs_url"], {"task_attempt": attempt["public_id"], **decision})
    run = wait_for_grade(api, run["url"])
    show_result(run)
    return run


def add_up(seen: dict[str, Any]) -> list[list[float]]:
    """[layer][GPU] observed load while experts lie in order, as many on each GPU."""
    gpus, width = seen["num_gpus"], seen["num_experts"] // seen["num_gpus"]
    return [
        [sum(layer[gpu * width : (gpu + 1) * width]) for gpu in range(gpus)]
        for layer in seen["observed_load"]
    ]


def predict_straggler(seen: dict[str, Any]) -> dict[str, Any]:
    """The fullest GPU is the straggler; how far it stands out is averaged over the layers."""
    load = add_up(seen)
    totals = [sum(column) for column in zip(*load, strict=True)]
    ratio = fmean(max(layer) / fmean(layer) for layer in load)
    return {"prediction": {"straggler_gpu": totals.index(max(totals)), "max_over_mean": round(ratio, 3)}}


def balance(seen: dict[str, Any]) -> dict[str, Any]:
    """Buy as many slots for copies as the budget holds; each costs one expert in every layer of every GPU."""
    slot_bytes = seen["expert_bytes"] * seen["accounted_layers"] * seen["num_gpus"]
    copies = int(seen["hbm_budget_gb"] * 1e9 // slot_bytes)
    params = {"eplb": True, "redundant_slots_per_gpu": copies, "window_steps": 16, "interval_steps": 4}
    return {"params": params} | predict_straggler(seen)


def place(seen: dict[str, Any]) -> dict[str, Any]:
    """Take the balancer's answer, and in each layer the one change that helps most, again and again."""
    placement, ratios = [], []
    for load, row in zip(seen["observed_load"], seen["balancer_placement"], strict=True):
        best = list(row)
        while True:
            changes = [with_change(best, slot, other, seen) for slot in range(len(best)) for other in best]
            found = min((each for each in changes if each), key=lambda each: busiest(each, load, seen))
            if busiest(found, load, seen) >= busiest(best, load, seen):
                break
            best = found
        placement.append(best)
        ratios.append(busiest(best, load, seen) * seen["num_gpus"] / sum(load))
    return {
        "artefact": {"placement": placement},
        "prediction": {"max_over_mean": round(max(fmean(ratios), 1.0), 3)},
    }


def with_change(row: list[int], slot: int, expert: int, seen: dict[str, Any]) -> list[int]:
    """The row with this expert in this slot; its own expert goes where the other came from unless it has a copy left.

    Empty where a group of experts would lie on two nodes.
    """
    size, node_slots = seen["num_experts"] // seen["num_groups"], len(row) // seen["num_nodes"]
    changed = list(row)
    changed[slot] = expert
    if row.count(row[slot]) == 1:
        changed[row.index(expert)] = row[slot]
    nodes = {(each // size, place // node_slots) for place, each in enumerate(changed)}
    return changed if len(nodes) == seen["num_groups"] else []


def busiest(row: list[int], load: list[float], seen: dict[str, Any]) -> float:
    """Load of the busiest GPU if copies share their expert's tokens evenly."""
    shares = [load[expert] / row.count(expert) for expert in row]
    width = seen["slots_per_gpu"]
    return max(sum(shares[start : start + width]) for start in range(0, len(row), width))


def price_copies(seen: dict[str, Any]) -> dict[str, Any]:
    """The smallest step in which the straggler of each layer takes longer than a GPU that shares all load evenly.

    With copies every GPU reads all its slots, or computes and sends an even share, whichever takes longer.
    """
    gpus, width = seen["num_gpus"], seen["slots_per_gpu_before"]
    afield = (gpus - 1) / gpus  # copies that come from another GPU

    def saved_us(tokens: int) -> float:
        saved = 0.0
        for layer in seen["observed_load"]:
            copies = [tokens * seen["top_k"] * load / sum(layer) for load in layer]
            slots_us = [max(seen["slot_read_us"], one * seen["token_compute_us"]) for one in copies]
            parts = [slice(gpu * width, (gpu + 1) * width) for gpu in range(gpus)]
            links_us = [
                afield * seen["copy_link_us"] * max(sum(copies[part]), sum(copies) / gpus) for part in parts
            ]
            slowest = max(sum(slots_us[part]) + link for part, link in zip(parts, links_us, strict=True))
            even = sum(copies) / gpus
            reading = seen["slots_per_gpu_with_eplb"] * seen["slot_read_us"]
            saved += (
                slowest - max(reading, even * seen["token_compute_us"]) - afield * seen["copy_link_us"] * even
            )
        return saved

    low, high = 1, 65_536
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if saved_us(middle) > 0 else (middle + 1, high)
    return {"prediction": {"break_even_tokens": low}}


# What this learner does in each task, from what the attempt shows.
DECISIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "moe-balance-hbm": balance,
    "moe-predict-straggler": predict_straggler,
    "moe-place-it": place,
    "moe-when-eplb-pays": price_copies,
}


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


def show_result(run: dict[str, Any]) -> None:
    if run["state"] != "graded":
        console.print(f"  [red]{run['state']}[/]: {run['reason']}")
        return
    for row in run["prediction_check"]:
        console.print(f"  predicted   {row['field']} {row['predicted']}, came out {row['actual']}")
    for name in ("max_over_mean_before_mean", "max_over_mean_mean", "sampling_floor", "speedup"):
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
        runs = [play_task(api, task) for task in api.get("tasks/")["results"]]
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
