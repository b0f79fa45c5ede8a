"""Looking back on a graded run: explaining, checking, and changing one thing."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from labs.models import Explanation, Run
from labs.services import submit_run
from quiz.models import Learner
from tests.labs.conftest import execute, make_learner, report_for
from tests.labs.test_api import client_of, pointers
from tests.labs.test_services import submit

POINTS = ["Copies split one expert's tokens.", "Each copy costs an expert in every layer."]


@pytest.fixture
def graded(attempt, simulation) -> Run:
    attempt.task.staff_points = POINTS
    attempt.task.save()
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    return run


@pytest.fixture
def api(learner) -> APIClient:
    return client_of(learner)


def place(run: Run, rest: str) -> str:
    return f"/api/v1/runs/{run.public_id}/{rest}/"


def explain(api: APIClient, run: Run, text: str = "One expert was too hot.") -> Any:
    return api.put(place(run, "explanation"), {"text": text}, format="json")


def test_the_staff_points_are_shown_once_the_explanation_stands(api, graded):
    before = api.get(place(graded, "explanation"))
    task = api.get("/api/v1/tasks/moe-balance-hbm/")
    run = api.get(f"/api/v1/runs/{graded.public_id}/")
    assert before.status_code == 404
    assert all(POINTS[0] not in json.dumps(answer.json()) for answer in (before, task, run))
    assert explain(api, graded).json()["points"] == POINTS


def test_an_explanation_is_written_once_and_a_repeated_write_of_it_is_harmless(api, graded):
    assert explain(api, graded).status_code == 200
    assert explain(api, graded).status_code == 200
    assert explain(api, graded, "I knew it all along.").status_code == 409


def test_points_shown_to_a_learner_stay_those_when_the_author_edits_them(api, graded):
    explain(api, graded)
    graded.task_attempt.task.staff_points = ["Another point."]
    graded.task_attempt.task.save()
    assert api.get(place(graded, "explanation")).json()["points"] == POINTS


@pytest.mark.parametrize("text", ["", "   ", None, "x" * 10_001])
def test_an_empty_or_endless_explanation_is_refused_at_its_field(api, graded, text):
    answer = api.put(place(graded, "explanation"), {"text": text}, format="json")
    assert answer.status_code == 400
    assert pointers(answer) == ["#/text"]
    assert not Explanation.objects.exists()


def test_a_run_without_a_grade_cannot_be_explained(api, attempt):
    assert explain(api, submit(attempt)).status_code == 409


def test_ticks_are_counted_and_may_be_changed_until_staff_has_checked(api, graded):
    explain(api, graded)
    for made, count in (([True, True], 2), ([True, False], 1)):
        answer = api.put(place(graded, "explanation/self-check"), {"made": made}, format="json")
        assert answer.json()["points_made"] == count
    Explanation.objects.update(staff_check=[False, False])
    answer = api.put(place(graded, "explanation/self-check"), {"made": [True, True]}, format="json")
    assert answer.status_code == 409
    assert api.get(place(graded, "explanation")).json()["points_made"] == 0


def test_a_wrong_number_of_ticks_is_refused_at_its_field(api, graded):
    explain(api, graded)
    answer = api.put(place(graded, "explanation/self-check"), {"made": [True]}, format="json")
    assert (answer.status_code, pointers(answer)) == (400, ["#/made"])


def test_an_explanation_of_somebody_elses_run_does_not_exist(api, graded, offering):
    explain(api, graded)
    other = client_of(make_learner("eve", offering))
    assert other.get(place(graded, "explanation")).status_code == 404
    assert explain(other, graded).status_code == 404


# Staff --------------------------------------------------------------------------------------------


@pytest.fixture
def staff(client: Any, db: None) -> Any:
    client.force_login(Learner.objects.create_superuser(username="root"))
    return client


def test_staff_override_the_ticks_with_a_reason(api, graded, staff):
    explain(api, graded)
    explanation = Explanation.objects.get()
    url = f"/admin/labs/explanation/{explanation.pk}/change/"
    refused = staff.post(url, {"staff_check": "[true, false]", "staff_comment": ""})
    assert b"Say why your ticks override" in refused.content
    staff.post(url, {"staff_check": "[true, false]", "staff_comment": "The cost is not in it."})
    explanation.refresh_from_db()
    assert explanation.staff is not None
    assert (explanation.points_made, explanation.staff.username) == (1, "root")


def test_staff_ticks_of_a_wrong_number_are_refused_beside_their_field(api, graded, staff):
    explain(api, graded)
    url = f"/admin/labs/explanation/{Explanation.objects.get().pk}/change/"
    page = staff.post(url, {"staff_check": "[true]", "staff_comment": "Well."})
    assert b"must have 2 values" in page.content


# What if one thing changed ------------------------------------------------------------------------


def vary(api: APIClient, run: Run, params: Any) -> Any:
    return api.post(place(run, "variations"), {"params": params}, format="json")


def test_a_variation_repeats_the_run_with_one_cause_altered_and_the_same_seed(api, graded):
    answer = vary(api, graded, {"window_steps": 9})
    assert answer.status_code == 202
    varied = Run.objects.get(public_id=answer.json()["public_id"])
    assert varied.params == graded.params | {"window_steps": 9}
    assert (varied.seed, varied.task_attempt, varied.varied_from) == (graded.seed, None, graded)


@pytest.mark.parametrize(
    ("params", "pointer"),
    [
        ({}, "#/params"),
        (None, "#/params"),
        ({"window_steps": 9, "interval_steps": 2}, "#/params"),
        ({"nonsense": 1}, "#/params/nonsense"),
        ({"window_steps": 0}, "#/params/window_steps"),
        ({"window_steps": 4}, "#/params/window_steps"),
    ],
)
def test_a_variation_that_is_not_one_other_value_is_refused(api, graded, params, pointer):
    answer = vary(api, graded, params)
    assert (answer.status_code, pointers(answer)) == (400, [pointer])


def test_a_run_that_is_not_graded_cannot_be_varied(api, attempt):
    assert vary(api, submit(attempt), {"window_steps": 9}).status_code == 409


def test_the_difference_names_what_was_altered_and_what_it_changed(api, graded, simulation):
    varied = Run.objects.get(public_id=vary(api, graded, {"window_steps": 9}).json()["public_id"])
    simulation(report_for(varied, max_over_mean_mean=1.25))
    execute(varied)
    shown = api.get(place(varied, "difference")).json()
    assert shown["altered"] == [{"name": "window_steps", "before": 4, "after": 9}]
    row = next(row for row in shown["metrics"] if row["name"] == "max_over_mean_mean")
    assert row == {
        "name": "max_over_mean_mean",
        "unit": "ratio",
        "before": 1.5,
        "after": 1.25,
        "change": -0.25,
    }


def test_a_run_that_was_not_varied_has_no_difference(api, lab, learner, simulation):
    run = submit_run(learner=learner, lab=lab, params={})
    simulation(report_for(run))
    execute(run)
    assert api.get(place(run, "difference")).status_code == 409
