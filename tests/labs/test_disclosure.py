"""Nothing hidden leaves before a run is graded: every route and page of the labs is walked with an open attempt.

Hidden are the seeds, the locked parameters of the drawn instance, what judges it, the staff points, what only staff
reads of a run, and everything of others. Each stands in the database as a value that occurs nowhere else.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from labs import page_urls, urls
from labs.models import Figure, Lab, LabTask, Run, TaskAttempt, Trace, TraceFile
from labs.services import submit_run
from labs.validation import check_params
from quiz.models import Learner, Offering
from simworkers.catalog import engine_version
from tests.labs.conftest import PREDICTION, execute, make_learner, report_for
from tests.labs.test_api import client_of
from tests.labs.trace_files import ready

SECRET = "zq-hidden-zq"
DRAW_SEED = 8_123_456_789_012_345
RUN_SEED = 7_234_567_890_123_456
CHECKPOINT = 1_987_654_321
HIDDEN = (SECRET, str(DRAW_SEED), str(RUN_SEED), str(CHECKPOINT))
METHODS = ("get", "put", "post", "patch", "delete", "options")


def drawn(task: LabTask, offering: Offering, learner: Learner) -> TaskAttempt:
    """An open attempt of which everything hidden is marked."""
    return TaskAttempt.objects.create(
        task=task,
        offering=offering,
        learner=learner,
        number=1,
        state=TaskAttempt.State.OPEN,
        draw_seed=DRAW_SEED,
        instance={"params": check_params(task.lab.job, {"checkpoint_seed": CHECKPOINT}), "seed": RUN_SEED},
        visible={"observed_load": [[3, 2, 1, 1, 1, 1, 1, 1]] * 4},
        engine_version=engine_version(task.lab.slug),
    )


@pytest.fixture
def marked(task: LabTask) -> LabTask:
    for criterion in task.rubric["criteria"]:
        criterion["feedback"] = SECRET
    task.staff_points = [SECRET]
    task.leaderboard, task.leaderboard_metric = True, "sampling_floor"
    task.save()
    return task


@pytest.fixture
def mine(marked: LabTask, offering: Offering, learner: Learner) -> TaskAttempt:
    return drawn(marked, offering, learner)


def submit(attempt: TaskAttempt) -> Run:
    return submit_run(
        learner=attempt.learner,
        lab=attempt.task.lab,
        params={},
        prediction=PREDICTION,
        task_attempt=attempt,
    )


@pytest.fixture
def others(marked: LabTask, offering: Offering, simulation: Callable[[Any], None]) -> Run:
    """A graded run of somebody else, with a figure, and a trace: all of it theirs."""
    eve = make_learner("eve", offering)
    TraceFile.objects.filter(pk=ready(eve, name=SECRET).file_id).update(reason=SECRET)
    run = submit(drawn(marked, offering, eve))
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    assert run.state == Run.State.GRADED
    pictures = {"svg_light": SECRET, "svg_dark": SECRET, "png": SECRET.encode()}
    Figure.objects.create(run=run, name="tokens", position=0, title=SECRET, spec={}, table=[], **pictures)
    return run


def routes(patterns: list[Any]) -> Iterator[tuple[str, set[str]]]:
    """(name, what its address asks for)."""
    for pattern in patterns:
        yield str(pattern.name), set(pattern.pattern.converters)


def addresses(attempts: list[TaskAttempt], runs: list[Run], lab: Lab) -> Iterator[tuple[str, str]]:
    """(route, address) of every route of the labs, over REST and as pages, with every id that there is."""
    slugs = {"labs": lab.slug, "tasks": attempts[0].task.slug}
    names = ["parameters", "metrics", "report", "prediction", "artefact", "tokens"]
    for route, asked in [*routes(urls.urlpatterns), *routes(page_urls.urlpatterns)]:
        rows: list[Any] = list(Trace.objects.all()) if "trace" in route else runs
        if "attempt" in route and "task" in route:
            rows = attempts
        for row in rows if "public_id" in asked else [None]:
            for name in names if "name" in asked else [None]:
                known = {
                    "public_id": row and row.public_id,
                    "name": name,
                    "offering": attempts[0].offering.slug,
                    "slug": slugs["tasks" if "task" in route else "labs"],
                }
                yield route, reverse(route, kwargs={key: known[key] for key in asked})
    for attempt in attempts:  # whose form is filled from an attempt
        yield "lab-page", f"{reverse('lab-page', args=[lab.slug])}?attempt={attempt.public_id}"


BODIES: dict[str, Any] = {
    "api-lab-runs": {"params": {"checkpoint_seed": 5, "colour": "red"}},
    "api-run-explanation": {"text": "Because."},
    "api-run-self-check": {"made": [True]},
    "api-run-variations": {"params": {"num_steps": 3}},
}


def leaks(learner: Learner, places: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """method and address → what is hidden and stands in the answer."""
    browser = Client(raise_request_exception=False)
    browser.force_login(learner)
    api, found = client_of(learner), {}
    seen: set[str] = set()
    for route, address in places:
        if route == "run-cancel" or route == "api-run-cancellation":
            continue  # ends the scene; its answer is that of api-run
        for method in METHODS:
            client: Any = api if address.startswith("/api/") else browser
            extra = {"format": "json"} if client is api else {}
            answer = getattr(client, method)(address, BODIES.get(route, {}), **extra)
            assert answer.status_code < 500 or answer.status_code == 501, (method, address)
            seen.add(route)
            text = b"".join(answer.streaming_content) if answer.streaming else answer.content
            if told := [mark for mark in HIDDEN if mark in text.decode("utf-8", "replace")]:
                found[f"{method} {address}"] = told
    assert len(seen) > 20
    return found


def test_an_open_attempt_gives_nothing_hidden_away(mine, others, learner, lab, worker):
    attempts = [mine, others.task_attempt]
    assert leaks(learner, addresses(attempts, [others], lab)) == {}


@pytest.mark.parametrize("state", ["queued", "running", "failed", "timed_out", "cancelled"])
def test_a_run_that_is_not_graded_gives_nothing_hidden_away(mine, others, learner, lab, worker, state):
    run = submit(mine)
    Run.objects.filter(pk=run.pk).update(state=state, fault=SECRET, reason="It crashed.")
    assert leaks(learner, addresses([mine, others.task_attempt], [run, others], lab)) == {}


def test_of_others_not_even_the_existence_is_told(mine, others, learner, lab):
    api = client_of(learner)
    theirs = {str(row.public_id) for row in (others, others.task_attempt, Trace.objects.get())}
    for route, address in addresses([others.task_attempt], [others], lab):
        if route.startswith("api-") and route != "api-run-events" and theirs & set(address.split("/")):
            # 405 where the route has no GET: it says nothing of the row.
            assert api.get(address).status_code in {404, 405}, route


def test_the_walk_would_find_a_leak(others, lab):
    """The same walk by the one whose run was graded: now seed, parameters and feedback are shown, as they should be."""
    found = leaks(others.learner, addresses([others.task_attempt], [others], lab))
    told = {mark for marks in found.values() for mark in marks}
    assert told == {SECRET, str(RUN_SEED), str(CHECKPOINT)}
    assert str(DRAW_SEED) not in told  # from which the seed of the next attempt could not be told anyway


def test_every_route_of_the_labs_is_walked(mine, others, lab):
    walked = {route for route, _ in addresses([mine], [others], lab)}
    known = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    prefixes = ("api-lab", "api-task", "api-run", "api-stream", "api-trace")
    pages = ("run-", "task-", "lab-", "labs-", "trace")
    assert {name for name in known if name.startswith(prefixes + pages)} <= walked
