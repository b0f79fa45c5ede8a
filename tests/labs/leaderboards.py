"""A leaderboard on the balance task, learners with graded runs, and a worker whose child answers as told."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from labs.final_runs import compute_final_run, forget_instances
from labs.leaderboard import enter, final_seed, ranking
from labs.models import FinalRun, Lab, LabTask, LeaderboardEntry, Run, TaskAttempt
from labs.services import submit_run
from labs.validation import check_params
from quiz.models import Learner, Offering
from simworkers import catalog
from tests.labs.conftest import PREDICTION, execute, make_learner, report_for

METRIC = "max_over_mean_mean"
FINAL_CHECKPOINT = 1_777_666_555
FINAL_RUN_SEED = 7_111_222_333_444_555


@pytest.fixture
def board(task: LabTask) -> LabTask:
    forget_instances()  # of an edition that an earlier test has drawn otherwise
    task.leaderboard, task.leaderboard_metric, task.leaderboard_better = True, METRIC, LabTask.Better.LESS
    task.full_clean()
    task.save()
    return task


def open_attempt_of(
    learner: Learner, task: LabTask, offering: Offering, *, number: int = 1, practice: bool = False
) -> TaskAttempt:
    return TaskAttempt.objects.create(
        task=task,
        offering=offering,
        learner=learner,
        number=number,
        practice=practice,
        state=TaskAttempt.State.OPEN,
        draw_seed=number,
        instance={"params": check_params(task.lab.job, {}), "seed": 10 + number},
        visible={},
        engine_version=catalog.engine_version(task.lab.slug),
    )


def submit_for(attempt: TaskAttempt, **params: Any) -> Run:
    return submit_run(
        learner=attempt.learner,
        lab=attempt.task.lab,
        params=params,
        prediction=PREDICTION,
        task_attempt=attempt,
    )


Grading = Callable[..., Run]


@pytest.fixture
def graded(simulation: Callable[[Any], None], offering: Offering, board: LabTask) -> Grading:
    """A graded run of a learner: the open parameters it hands in, and the number of its attempt."""

    def make(learner: Learner, *, number: int = 1, practice: bool = False, **params: Any) -> Run:
        run = submit_for(
            open_attempt_of(learner, board, offering, number=number, practice=practice), **params
        )
        simulation(report_for(run))
        execute(run)
        run.refresh_from_db()
        assert run.state == Run.State.GRADED
        return run

    return make


def instance(**changes: Any) -> dict[str, Any]:
    """What the child draws from the final seed."""
    params = check_params(catalog.get_job("moe-eplb"), {"checkpoint_seed": FINAL_CHECKPOINT})
    return {"params": params, "visible": {}, "seed": FINAL_RUN_SEED} | changes


class Child:
    """Stands in for the supervised child. `score`: a metric, or a function of the parameters; `calls`: the requests."""

    def __init__(self, score: Any = 1.5) -> None:
        self.score = score
        self.changes: dict[str, Any] = {}
        self.drawn: Any = instance()
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, kwargs: dict[str, Any], on_beat: Any) -> Any:
        entry = "prepare_task" if "kind" in kwargs else "run_job"
        self.calls.append((entry, kwargs))
        answer: Any = self.drawn if entry == "prepare_task" else self.report(kwargs)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def report(self, kwargs: dict[str, Any]) -> Any:
        score = self.score(kwargs["params"]) if callable(self.score) else self.score
        if isinstance(score, Exception):
            return score
        run = Run(lab=Lab.objects.get(slug=kwargs["lab"]), params=kwargs["params"], seed=kwargs["seed"])
        return report_for(run, **{METRIC: score, **self.changes})


@pytest.fixture
def child(simulation: Callable[[Any], None]) -> Callable[..., Child]:
    def make(score: Any = 1.5) -> Child:
        made = Child(score)
        simulation(made)
        return made

    return make


@pytest.fixture
def entered(graded: Grading, board: LabTask, offering: Offering) -> Callable[..., LeaderboardEntry]:
    """A new learner with a graded run, who has entered under a name."""

    def make(name: str, display_name: str | None = None, **params: Any) -> LeaderboardEntry:
        learner = Learner.objects.filter(username=name).first() or make_learner(name, offering)
        graded(learner, **params)
        return enter(
            learner=learner, task=board, offering=offering, display_name=display_name or f"The {name}"
        )[0]

    return make


def compute_all() -> None:
    """As workers do with the messages that were sent."""
    for pk in (
        FinalRun.objects.filter(state=FinalRun.State.WAITING).order_by("pk").values_list("pk", flat=True)
    ):
        compute_final_run(pk)


def hidden_texts(task: LabTask) -> tuple[str, ...]:
    """What of the final instance must never leave."""
    return (str(final_seed(task)), str(FINAL_RUN_SEED), str(FINAL_CHECKPOINT))


def names(task: LabTask, offering: Offering) -> list[str]:
    return [row.display_name for row in ranking(task, offering)]


def ranks(task: LabTask, offering: Offering) -> list[tuple[int, str]]:
    rows: Any = ranking(task, offering)
    return [(row.rank, row.display_name) for row in rows]


def at_once(*actions: Any) -> list[Any]:
    """What each returned or raised, all begun together in threads of their own."""
    start, outcomes = threading.Barrier(len(actions)), [None] * len(actions)

    def carry_out(index: int) -> None:
        start.wait()
        try:
            outcomes[index] = actions[index]()
        except Exception as exc:
            outcomes[index] = exc  # type: ignore[call-overload]
        finally:
            connection.close()

    threads = [threading.Thread(target=carry_out, args=(index,)) for index in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
