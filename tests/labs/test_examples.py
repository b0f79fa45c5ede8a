"""The examples of the OpenAPI description look like what the API answers."""

from typing import Any

from labs.api.examples.labs import LAB
from labs.api.examples.runs import FIGURE, GRADED_RUN, QUEUED_RUN, REPORT, RUN_ROW, TICKET
from labs.api.examples.tasks import PREPARING, TASK
from labs.models import Figure, Run
from tests.labs.conftest import execute, report_for
from tests.labs.test_api import RUNS, api, submission  # noqa: F401
from tests.quiz.test_schema import shape

# What differs from lab to lab and task to task: its inside is described by a JSON Schema of its own.
OPEN = {
    *("params", "metrics", "invariants", "provenance", "prediction", "open_parameters", "visible", "values"),
    "criteria",
}


def outline(document: Any) -> Any:
    """The shape, without the inside of what the lab decides."""
    if isinstance(document, list):
        return [outline(item) for item in document[:1]]
    if isinstance(document, dict):
        return {name: None if name in OPEN else outline(item) for name, item in document.items()}
    return None


def test_the_examples_of_labs_and_tasks_have_the_shape_of_real_answers(api, task, offering):  # noqa: F811
    assert outline(api.get("/api/v1/labs/moe-eplb/").json()) == outline(LAB)
    shown = api.get("/api/v1/tasks/moe-balance-hbm/").json()
    assert outline(shown) == outline(TASK)
    assert shape(shown["criteria"]) == shape(TASK["criteria"])
    opened = api.post("/api/v1/tasks/moe-balance-hbm/attempts/", {}, format="json").json()
    assert outline(opened) == outline(PREPARING)


def test_the_examples_of_runs_have_the_shape_of_real_answers(api, attempt, simulation):  # noqa: F811
    queued = api.post(RUNS, submission(attempt), format="json")
    assert outline(queued.json()) == outline(QUEUED_RUN)
    run = Run.objects.get()
    simulation(report_for(run))
    execute(run)
    Figure.objects.create(run=run, name="f", position=0, title="F", spec={}, table=[], png=b"")
    graded = api.get(queued["Location"]).json()
    assert outline(graded) == outline(GRADED_RUN)
    judged = graded["criteria"][-1]
    assert judged.keys() == GRADED_RUN["criteria"][0].keys()
    assert outline(api.get("/api/v1/runs/").json()["results"][0]) == outline(RUN_ROW)
    assert outline(api.get(f"{queued['Location']}report/").json()) == outline(REPORT)
    listed = api.get(f"{queued['Location']}figures/").json()["results"]
    assert outline(listed) == outline([FIGURE])
    ticket = api.post(f"{queued['Location']}stream-tickets/").json()
    assert outline(ticket) == outline(TICKET)
