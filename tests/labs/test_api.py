"""Labs over REST: what a front end's developer meets, bad input most of all."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from labs.models import Figure, Run, TaskAttempt
from quiz.services import issue_token
from tests.labs.conftest import PREDICTION, execute, make_learner, report_for

PROBLEM = "application/problem+json"
RUNS = "/api/v1/labs/moe-eplb/runs/"
NUL = chr(0)
LONE_SURROGATE = '"' + chr(92) + 'ud800"'  # the JSON escape, six characters


def client_of(learner: Any) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {issue_token(learner=learner)[1]}")
    return client


@pytest.fixture
def api(learner) -> APIClient:
    return client_of(learner)


def submission(attempt: TaskAttempt, **changes: Any) -> dict[str, Any]:
    body = {"task_attempt": str(attempt.public_id), "params": {"eplb": True}, "prediction": PREDICTION}
    return body | changes


def pointers(response: Any) -> list[str]:
    assert response["Content-Type"] == PROBLEM
    return [error["pointer"] for error in response.json().get("errors", [])]


# The way through ----------------------------------------------------------------------------------


def test_an_attempt_is_opened_and_polled(api, task, offering):
    opened = api.post("/api/v1/tasks/moe-balance-hbm/attempts/", {}, format="json")
    assert opened.status_code == 201
    assert (opened.json()["state"], opened["Retry-After"]) == ("preparing", "1")
    assert api.get(opened["Location"]).json() == opened.json()


def test_opening_twice_answers_200_with_the_same_attempt(api, attempt):
    again = api.post("/api/v1/tasks/moe-balance-hbm/attempts/", {}, format="json")
    assert (again.status_code, again.json()["public_id"]) == (200, str(attempt.public_id))


def test_a_submission_answers_202_with_the_place_to_poll(api, attempt):
    response = api.post(RUNS, submission(attempt), format="json")
    assert response.status_code == 202
    assert response["Retry-After"] == "1"
    assert api.get(response["Location"]).json()["state"] == "queued"


def test_a_run_from_before_a_parameter_was_opened_can_still_be_read(api, attempt):
    place = api.post(RUNS, submission(attempt), format="json")["Location"]
    run = Run.objects.get()
    del run.params["interval_steps"]
    run.save()
    shown = api.get(place).json()["params"]
    assert shown["eplb"] is True
    assert "interval_steps" not in shown


def test_a_graded_run_shows_score_criteria_metrics_and_what_was_predicted(api, attempt, simulation):
    place = api.post(RUNS, submission(attempt), format="json")["Location"]
    run = Run.objects.get()
    simulation(report_for(run))
    execute(run)
    shown = api.get(place).json()
    assert (shown["state"], shown["score"], shown["reused"]) == ("graded", "0.5250", False)
    assert shown["criteria"][2]["feedback"].startswith("The busiest GPU")
    assert shown["metrics"]["max_over_mean_mean"] == 1.5
    assert shown["prediction_check"][0] == {
        "field": "straggler_gpu",
        "predicted": 1,
        "metric": "straggler_gpu_before",
        "actual": 0,
    }


def test_an_unchanged_run_answers_304(api, attempt):
    place = api.post(RUNS, submission(attempt), format="json")["Location"]
    first = api.get(place)
    assert api.get(place, HTTP_IF_NONE_MATCH=first["ETag"]).status_code == 304


def test_a_run_is_cancelled_over_rest_and_a_second_cancellation_changes_nothing(api, attempt):
    place = api.post(RUNS, submission(attempt), format="json")["Location"]
    assert api.post(f"{place}cancellation/").json()["state"] == "cancelled"
    assert api.post(f"{place}cancellation/").status_code == 200


# What must not leave ------------------------------------------------------------------------------


def test_the_hidden_instance_and_seeds_do_not_leave_before_grading(api, attempt):
    TaskAttempt.objects.filter(pk=attempt.pk).update(draw_seed=987654321987654321)
    attempt.refresh_from_db()
    attempt.instance["seed"] = 123456789123456789
    attempt.instance["params"]["checkpoint_seed"] = 1357913579135791
    attempt.save()
    attempt_page = api.get(f"/api/v1/task-attempts/{attempt.public_id}/").content
    run_page = api.post(RUNS, submission(attempt), format="json").content
    for secret in (b"987654321987654321", b"123456789123456789", b"1357913579135791"):
        assert secret not in attempt_page + run_page


def test_somebody_elses_run_attempt_and_figures_do_not_exist(api, attempt, offering):
    place = api.post(RUNS, submission(attempt), format="json")["Location"]
    other = client_of(make_learner("eve", offering))
    for path in (place, f"{place}report/", f"{place}figures/", f"{place}figures/x/"):
        assert other.get(path).status_code == 404
    assert other.post(f"{place}cancellation/").status_code == 404
    assert other.get(f"/api/v1/task-attempts/{attempt.public_id}/").status_code == 404
    assert other.post(RUNS, submission(attempt), format="json").status_code == 404
    assert other.get("/api/v1/runs/").json()["results"] == []


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"params": {"no_such": 1}}, "#/params/no_such"),
        ({"params": {"window_steps": 0}}, "#/params/window_steps"),
        ({"params": {"window_steps": float("inf")}}, "#/params/window_steps"),
        ({"params": {"window_steps": 10**30}}, "#/params/window_steps"),
        ({"params": {"eplb_policy": "magic"}}, "#/params/eplb_policy"),
        ({"params": {"eplb_policy": "a" + NUL}}, "#/params/eplb_policy"),
        ({"params": None}, "#/params"),
        ({"params": "all"}, "#/params"),
        ({"prediction": None}, "#/prediction"),
        ({"prediction": {"straggler_gpu": 1}}, "#/prediction/max_over_mean"),
        ({"prediction": PREDICTION | {"max_over_mean": float("nan")}}, "#/prediction/max_over_mean"),
        ({"seed": 5}, "#/seed"),
        ({"score": 1}, "#/score"),
        ({"task_attempt": "seven"}, "#/task_attempt"),
    ],
)
def test_a_bad_submission_is_refused_with_a_pointer_and_leaves_nothing(api, attempt, changes, pointer):
    body = json.dumps(submission(attempt, **changes))
    response = api.post(RUNS, body, content_type="application/json")
    assert response.status_code == 400
    assert pointers(response) == [pointer]
    assert not Run.objects.exists()


def test_a_changed_prediction_is_refused_with_a_pointer(api, attempt):
    place = api.post(RUNS, submission(attempt), format="json")["Location"]
    api.post(f"{place}cancellation/")
    changed = submission(attempt, prediction=PREDICTION | {"straggler_gpu": 0})
    response = api.post(RUNS, changed, format="json")
    assert response.status_code == 409
    assert pointers(response) == ["#/prediction"]


def test_a_used_up_attempt_answers_a_problem(api, attempt):
    TaskAttempt.objects.update(state=TaskAttempt.State.GRADED)
    response = api.post(RUNS, submission(attempt), format="json")
    assert response.status_code == 403
    assert response.json()["type"] == "urn:staffloop:problem:attempts-used-up"


@pytest.mark.parametrize("body", ["{", "[1", '{"params": {', "nonsense", LONE_SURROGATE, "[]", "7", "null"])
def test_what_is_no_json_object_answers_400(api, lab, body):
    response = api.post(RUNS, body, content_type="application/json")
    assert response.status_code == 400
    assert response["Content-Type"] == PROBLEM


def test_deeply_nested_json_answers_400(api, lab):
    response = api.post(RUNS, '{"params":' * 5000 + "1" + "}" * 5000, content_type="application/json")
    assert response.status_code == 400


def test_a_body_over_one_mebibyte_answers_413(api, lab):
    response = api.post(RUNS, {"params": {"x": "a" * 2**20}}, format="json")
    assert response.status_code == 413
    assert response["Content-Type"] == PROBLEM


def test_another_content_type_answers_415(api, lab):
    response = api.post(RUNS, "params=1", content_type="application/x-www-form-urlencoded")
    assert response.status_code == 415
    assert response["Content-Type"] == PROBLEM


@pytest.mark.parametrize("header", ["", "Bearer nonsense", "Bearer ", "Bearer a b", "Token x"])
def test_a_bad_token_answers_401(lab, header):
    client = APIClient()
    if header:
        client.credentials(HTTP_AUTHORIZATION=header)
    response = client.get("/api/v1/labs/")
    assert response.status_code == 401
    assert response["Content-Type"] == PROBLEM
    assert response["WWW-Authenticate"].startswith("Bearer")


def test_a_wrong_method_answers_405_as_a_problem(api, lab):
    response = api.delete(RUNS)
    assert response.status_code == 405
    assert response["Content-Type"] == PROBLEM


# Schemas and figures ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["parameters", "metrics", "report"])
def test_each_schema_is_valid(api, lab, name):
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(api.get(f"/api/v1/labs/moe-eplb/schemas/{name}/").json())


@pytest.mark.parametrize("name", ["parameters", "metrics"])
def test_every_parameter_and_metric_has_a_unit_and_a_description(api, lab, name):
    fields = api.get(f"/api/v1/labs/moe-eplb/schemas/{name}/").json()["properties"]
    assert all("unit" in field and field["description"] for field in fields.values())


def test_an_unknown_schema_answers_404(api, lab):
    assert api.get("/api/v1/labs/moe-eplb/schemas/nonsense/").status_code == 404


def test_a_task_shows_what_may_be_set_and_nothing_else(api, task):
    shown = api.get("/api/v1/tasks/moe-balance-hbm/").json()
    assert sorted(shown["open_parameters"]["properties"]) == sorted(task.task_kind.open_parameters)
    assert [row["points"] for row in shown["criteria"]] == ["0.50", "0.00", "9.50"]


@pytest.fixture
def figure(lab, learner) -> Figure:
    run = Run.objects.create(lab=lab, learner=learner, params={}, seed=0)
    return Figure.objects.create(
        run=run,
        name="tokens",
        position=0,
        title="Tokens",
        spec={"mark": "bar"},
        table=[{"gpu": 0, "tokens": 5}],
        svg_light="<svg>light</svg>",
        svg_dark="<svg>dark</svg>",
        png=b"PNG",
    )


@pytest.mark.parametrize(
    ("accept", "content"),
    [
        ("application/vnd.vegalite+json", b'{"mark":"bar"}'),
        ("application/json", b'{"mark":"bar"}'),
        ("image/svg+xml", b"<svg>light</svg>"),
        ("image/png", b"PNG"),
        ("text/csv", b"gpu,tokens\r\n0,5\r\n"),
    ],
)
def test_a_figure_comes_as_what_is_accepted(api, figure, accept, content):
    response = api.get(f"/api/v1/runs/{figure.run.public_id}/figures/tokens/", HTTP_ACCEPT=accept)
    assert response["Content-Type"].partition(";")[0] == accept
    assert response.content == content


def test_a_figure_comes_dark_where_the_theme_says_so(api, figure):
    response = api.get(f"/api/v1/runs/{figure.run.public_id}/figures/tokens/?format=svg&theme=dark")
    assert response.content == b"<svg>dark</svg>"


def test_a_missing_figure_is_a_problem_also_where_a_picture_was_asked_for(api, figure):
    response = api.get(f"/api/v1/runs/{figure.run.public_id}/figures/none/", HTTP_ACCEPT="image/png")
    assert response.status_code == 404
    assert response.json()["status"] == 404


@pytest.mark.parametrize("seed", [True, "5", 5.0])
def test_a_seed_of_another_json_type_is_refused(api, lab, seed):
    assert pointers(api.post(RUNS, {"seed": seed}, format="json")) == ["#/seed"]


@pytest.mark.parametrize("practice", ["true", 1])
def test_practice_is_true_or_false_and_nothing_like_it(api, task, offering, practice):
    answer = api.post("/api/v1/tasks/moe-balance-hbm/attempts/", {"practice": practice}, format="json")
    assert pointers(answer) == ["#/practice"]


def test_a_queued_run_says_why_no_worker_can_take_it(api, lab, worker):
    place = api.post(RUNS, {}, format="json")["Location"]
    assert api.get(place).json()["queue"]["problem"] is None
    Run.objects.update(engine_version="of-yesterday")
    queue = api.get(place).json()["queue"]
    assert queue["expected_wait_s"] is None
    assert queue["problem"].startswith("No live worker has the version of the lab")
