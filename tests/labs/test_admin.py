"""Authors mend labs and tasks in the admin; what they type wrongly is an error at the field."""

import json
import logging
from typing import Any

import pytest
from django.test import Client

from labs.models import LabTask
from quiz.models import Learner
from tests.labs.test_services import submit


@pytest.fixture
def author(client: Any, db: None) -> Any:
    client.force_login(Learner.objects.create_superuser(username="root"))
    return client


def save(author: Client, task: LabTask, **changes: str) -> Any:
    """The page that refuses it."""
    form = {
        "activity": task.activity_id,
        "lab": task.lab_id,
        "kind": task.kind,
        "prompt": task.prompt,
        "rubric": json.dumps(task.rubric),
        "staff_points": "[]",
        "attempts_allowed": 3,
        "published": "on",
    }
    page = author.post(f"/admin/labs/labtask/{task.pk}/change/", form | changes)
    assert page.status_code == 200
    return page


def test_the_admin_refuses_a_rubric_with_an_unknown_metric_beside_its_field(author, task):
    rubric = json.loads(json.dumps(task.rubric).replace("sampling_floor", "no_such_metric"))
    page = save(author, task, rubric=json.dumps(rubric))
    assert "no single-number metric &#x27;no_such_metric&#x27;" in page.content.decode()
    task.refresh_from_db()
    assert "sampling_floor" in json.dumps(task.rubric)


@pytest.mark.parametrize("model", ["lab", "labtask", "taskattempt", "run"])
def test_every_list_of_the_admin_opens(author, attempt, model):
    assert author.get(f"/admin/labs/{model}/").status_code == 200


def test_a_run_can_be_read_and_not_typed_in_the_admin(author, attempt):

    run = submit(attempt)
    page = author.get(f"/admin/labs/run/{run.pk}/change/")
    assert page.status_code == 200
    assert b'name="score"' not in page.content


@pytest.mark.parametrize("field", ["rubric", "staff_points"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 3000 + "]" * 3000, "nested more than 64 levels deep"),
        ("[" * 300 + "]" * 300, "nested more than 64 levels deep"),
        ("{", "is not JSON"),
        ("NaN", "NaN is not a JSON number"),
        ("9" * 5000, "is not JSON"),
        ('{"a": 1, "a": 2}', "appears twice"),
        ('["a\\u0000b"]', "cannot be stored"),
    ],
)
def test_json_that_cannot_be_read_or_stored_is_an_error_at_its_field(author, task, field, text, words):
    page = save(author, task, **{field: text})
    (error,) = page.context["adminform"].form.errors[field]
    assert words in error
    task.refresh_from_db()
    assert task.rubric["criteria"]


@pytest.fixture
def broken(task) -> LabTask:
    """A task whose stored rubric an older version of the code had let in."""
    LabTask.objects.filter(pk=task.pk).update(rubric={"criteria": [{"kind": "gone"}]})
    task.refresh_from_db()
    return task


def test_a_broken_rubric_takes_only_its_own_criteria_away(client, learner, broken, caplog):
    client.force_login(learner)
    with caplog.at_level(logging.ERROR):
        tasks = client.get("/api/v1/tasks/").json()["results"]
    criteria = {task["slug"]: task["criteria"] for task in tasks}
    assert criteria.pop(broken.slug) is None
    assert criteria and all(criteria.values())
    assert f"the rubric of task {broken.slug} cannot be read" in caplog.text


def test_a_broken_rubric_is_said_on_the_tasks_page_and_on_its_attempts(
    client, learner, offering, broken, attempt
):
    client.force_login(learner)
    page = client.get(f"/labs/classes/{offering.slug}/tasks/{broken.slug}/")
    assert "The criteria cannot be read just now" in page.content.decode()
    assert client.get(f"/labs/attempts/{attempt.public_id}/").status_code == 200


def test_a_broken_rubric_is_marked_in_the_admins_list(author, broken):
    page = author.get("/admin/labs/labtask/").content.decode()
    assert page.count("icon-no.svg") == 1
