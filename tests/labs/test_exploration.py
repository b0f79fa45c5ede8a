"""From an attempt of a task to a free run of its lab, whose form it fills."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from labs.exploration import explore_path, start_values
from labs.models import Run, TaskAttempt
from labs.services import submit_run
from tests.labs.conftest import PREDICTION, execute, make_learner, report_for
from tests.labs.test_api import client_of

HIDDEN_SEED = 987_654_321_123


@pytest.fixture
def attempt(attempt: TaskAttempt) -> TaskAttempt:
    """A skew of 85% and steps of 2,048 tokens were drawn; one is shown, the other is not."""
    assert attempt.instance is not None
    attempt.instance["params"] |= {"skew_percent": 85, "tokens_per_step": 2048, "window_steps": 7}
    attempt.instance["seed"] = HIDDEN_SEED
    attempt.visible = {"skew_percent": 85, "num_layers": "many", "mix_percent": {"chat": 90, "code": 10}}
    attempt.save()
    return attempt


@pytest.fixture
def graded(attempt: TaskAttempt, simulation: Callable[[Any], None]) -> TaskAttempt:
    run = submit_run(
        learner=attempt.learner, lab=attempt.task.lab, params={}, prediction=PREDICTION, task_attempt=attempt
    )
    simulation(report_for(run))
    execute(run)
    attempt.refresh_from_db()
    assert attempt.state == TaskAttempt.State.GRADED
    return attempt


def page_of(attempt: TaskAttempt, learner: Any) -> Client:
    browser = Client()
    browser.force_login(learner)
    return browser


def form_of(attempt: TaskAttempt, learner: Any, lab: str = "moe-eplb") -> str:
    answer = page_of(attempt, learner).get(f"/labs/{lab}/?attempt={attempt.public_id}")
    assert answer.status_code == 200
    return answer.content.decode()


def value_in(html: str, field: str) -> str:
    found = re.search(rf'id="{field}"[^>]*value="([^"]*)"', html)
    assert found, field
    return found[1]


def test_an_open_attempt_fills_the_form_with_what_it_shows_and_no_more(attempt, learner):
    html = form_of(attempt, learner)
    assert value_in(html, "params-skew_percent") == "85"  # shown
    assert value_in(html, "params-window_steps") == "7"  # what an open parameter starts from
    assert value_in(html, "params-tokens_per_step") == "8192"  # hidden: the default
    assert value_in(html, "seed") == "0"
    assert str(HIDDEN_SEED) not in html


def test_what_is_shown_under_a_parameters_name_and_is_another_thing_fills_nothing(attempt):
    assert "num_layers" not in start_values(attempt)


def test_a_graded_attempt_fills_the_form_with_all_that_its_run_had(graded, learner):
    html = form_of(graded, learner)
    assert value_in(html, "params-tokens_per_step") == "2048"
    assert value_in(html, "seed") == str(HIDDEN_SEED)
    assert "all that its graded run had" in html


def test_a_run_from_a_filled_form_is_a_free_one(graded, learner):
    browser = page_of(graded, learner)
    browser.post(f"/labs/moe-eplb/?attempt={graded.public_id}", {"/params/num_steps": "3", "/seed": "12"})
    run = Run.objects.get(task_attempt=None)
    assert (run.params["num_steps"], run.seed) == (3, 12)


@pytest.mark.parametrize("state", ["open", "graded"])
def test_the_page_of_an_attempt_and_rest_lead_to_the_form(graded, learner, state):
    TaskAttempt.objects.update(state=state)
    if state == "open":
        Run.objects.all().delete()
    graded.refresh_from_db()
    path = explore_path(graded)
    page = page_of(graded, learner).get(reverse("task-attempt-page", args=[graded.public_id]))
    assert f'href="{path}"' in page.content.decode()
    told = client_of(learner).get(reverse("api-task-attempt", args=[graded.public_id])).data["explore_url"]
    assert told == f"http://testserver{path}"


def test_the_page_of_a_graded_run_leads_to_the_form(graded, learner):
    page = page_of(graded, learner).get(reverse("run-page", args=[graded.runs.get().public_id]))
    assert f'href="{explore_path(graded)}"' in page.content.decode()


@pytest.mark.parametrize("state", ["preparing", "failed"])
def test_an_attempt_that_nobody_can_run_leads_nowhere_and_fills_nothing(attempt, learner, state):
    TaskAttempt.objects.update(state=state)
    told = client_of(learner).get(reverse("api-task-attempt", args=[attempt.public_id])).data["explore_url"]
    assert told is None
    assert "Filled in from" not in form_of(attempt, learner)


def test_somebody_elses_attempt_fills_nothing(graded, offering):
    html = form_of(graded, make_learner("eve", offering))
    assert "Filled in from" not in html
    assert value_in(html, "seed") == "0"


def test_an_attempt_at_another_lab_fills_nothing(graded, learner):
    assert "Filled in from" not in form_of(graded, learner, lab="multimodal-cache")


def test_an_attempt_that_is_not_there_leaves_the_defaults(attempt, learner):
    answer = page_of(attempt, learner).get("/labs/moe-eplb/?attempt=nonsense")
    assert answer.status_code == 200 and b"Filled in from" not in answer.content
