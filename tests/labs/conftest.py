"""A class with one learner, the balance task, and reports of the right shape for tests of the state machine.

Journeys (tests/journeys/) run the real simulation; here a report stands in for it wherever what is tested is what
happens to a result, not the result.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from labs.execution import execute_run
from labs.loading import load_labs
from labs.models import Lab, LabTask, Run, TaskAttempt, Worker
from labs.scheduling import register_worker
from labs.validation import check_params
from quiz.models import Activity, Course, Learner, Offering
from quiz.services import enroll
from simworkers import catalog
from tests.labs.trace_files import stored, traced

__all__ = ["stored", "traced"]  # fixtures

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "labs"
ARITHMETIC = {"torch": "2.13.0", "cpu_capability": "AVX2"}
PREDICTION = {"straggler_gpu": 1, "max_over_mean": 1.5}


def make_activities(course: Course, start: int = 1) -> None:
    """An activity for every task of the files, in their order."""
    tasks = [task for path in FIXTURES.glob("*.json") for task in json.loads(path.read_text())["tasks"]]
    titles = {"moe-balance-hbm": "Balance within an HBM budget"}
    for position, task in enumerate(tasks, start):
        Activity.objects.create(
            course=course,
            kind=Activity.Kind.LAB_TASK,
            slug=task["activity"],
            position=position,
            title=titles.get(task["activity"], task["kind"]),
            points=Decimal(10),
        )


@pytest.fixture
def offering(db: None) -> Offering:
    course = Course.objects.create(slug="frontier-serving", title="Frontier serving")
    make_activities(course)
    return Offering.objects.create(course=course, slug="open", title="Open class", self_enrolment=True)


@pytest.fixture
def lab(offering: Offering) -> Lab:
    return {lab.slug: lab for lab in load_labs(FIXTURES)}["moe-eplb"]


@pytest.fixture
def task(lab: Lab) -> LabTask:
    return lab.tasks.get(activity__slug="moe-balance-hbm")


@pytest.fixture
def worker(db: None) -> Worker:
    return register_worker(slots=2)


def execute(run: Run) -> None:
    """Claim this run, whoever's turn it is, and carry it out; nothing where it is not queued, or gone."""
    there = Run.objects.select_related("lab", "learner", "task_attempt__task__activity").filter(pk=run.pk)
    if (claimed := there.first()) is not None and claimed.claim(60):
        execute_run(claimed)


def make_learner(name: str, offering: Offering) -> Learner:
    learner = Learner.objects.create_user(username=name)
    enroll(learner=learner, offering=offering)
    return learner


@pytest.fixture
def learner(offering: Offering) -> Learner:
    return make_learner("ada", offering)


@pytest.fixture
def eve(offering: Offering) -> Learner:
    """Somebody else in the class."""
    return make_learner("eve", offering)


@pytest.fixture
def attempt(task: LabTask, offering: Offering, learner: Learner) -> TaskAttempt:
    """An open attempt whose instance is the lab's default scene."""
    return TaskAttempt.objects.create(
        task=task,
        offering=offering,
        learner=learner,
        number=1,
        state=TaskAttempt.State.OPEN,
        draw_seed=1,
        instance={"params": check_params(task.lab.job, {}), "seed": 11},
        visible={},
        engine_version=catalog.engine_version(task.lab.slug),
    )


def metrics(**changes: Any) -> dict[str, Any]:
    """Metrics of the right shape: halfway between contiguous and the floor, within the budget."""
    empty: dict[str, Any] = {"integer": 0, "number": 0.0, "array": []}
    schema = catalog.get_job("moe-eplb").metrics.model_json_schema()["properties"]
    values = {name: empty[field["type"]] for name, field in schema.items()}
    known = {
        "max_over_mean_before_mean": 2.0,
        "max_over_mean_mean": 1.5,
        "max_over_mean_saving_mean": 1.25,
        "sampling_floor": 1.0,
        "within_budget": 1,
    }
    return values | known | changes


def report_for(run: Run, **changes: Any) -> dict[str, Any]:
    return {
        "lab": run.lab.slug,
        "engine_version": catalog.engine_version(run.lab.slug),
        "seed": run.seed,
        "params": run.params,
        "metrics": metrics(**changes),
        "invariants": {"tokens_conserved": {"state": "held", "first_event": None}},
        "provenance": ARITHMETIC,
    }


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Decide what the child hands back: a report, an exception to raise, or a function of (kwargs, on_beat)."""

    def hand_back(answer: Any) -> None:
        def call(entry: str, kwargs: dict[str, Any], *, on_beat: Any, **rest: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer(kwargs, on_beat) if callable(answer) else answer

        monkeypatch.setattr("labs.runner.call", call)
        monkeypatch.setattr("labs.execution.arithmetic", lambda: ARITHMETIC)

    return hand_back


@pytest.fixture(autouse=True)
def messages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was put on the broker, instead of putting it there."""
    sent: list[tuple[str, int]] = []

    def publish(task: str, pk: int) -> bool:
        sent.append((task, pk))
        return True

    monkeypatch.setattr("labs.dispatch.publish", publish)
    return sent
