"""The leaderboard on the pages of a task, by plain forms."""

from typing import Any

import pytest
from django.test import Client

from labs.models import FinalRun, LabTask, LeaderboardEntry
from quiz.models import Learner, Offering
from tests.labs.conftest import make_learner
from tests.labs.leaderboards import board, child, compute_all, entered, graded

__all__ = ["board", "child", "entered", "graded"]  # fixtures

TASK = "/labs/classes/open/tasks/moe-balance-hbm/"
URL = f"{TASK}leaderboard/"


def browser_of(learner: Learner) -> Client:
    client = Client()
    client.force_login(learner)
    return client


def text_of(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


@pytest.fixture
def page(learner) -> Client:
    return browser_of(learner)


def test_before_a_graded_run_the_page_says_how_to_get_there_and_has_no_form(board, page):
    shown = text_of(page.get(TASK))
    assert "once a run of this task is graded" in shown
    assert "Nobody is ranked yet." in shown
    assert 'name="display_name"' not in shown


def test_a_learner_enters_is_ranked_renames_and_withdraws_by_plain_forms(board, page, learner, graded, child):
    graded(learner)
    assert "Enter the leaderboard" in text_of(page.get(TASK))
    shown = text_of(page.post(URL, {"display_name": "Quiet router"}, follow=True))
    assert "You have entered the leaderboard as Quiet router." in shown
    assert "A worker computes your final run" in shown
    child(1.0625)
    compute_all()
    shown = text_of(page.get(TASK))
    assert "Rank 1 of 1, with 1.0625 ratio." in shown
    assert 'aria-current="true"' in shown
    page.post(URL, {"display_name": "Louder router"})
    assert "<bdi>Louder router</bdi>" in text_of(page.get(TASK))
    shown = text_of(page.post(f"{URL}withdraw/", follow=True))
    assert "You have withdrawn from the leaderboard." in shown
    assert not LeaderboardEntry.objects.exists()
    page.post(f"{URL}withdraw/")  # a second click


def test_a_refused_name_stands_in_its_field_with_the_reason(board, page, learner, graded):
    graded(learner)
    answer = page.post(URL, {"display_name": "<b>me</b>"})
    assert answer.status_code == 400
    shown = text_of(answer)
    assert 'value="&lt;b&gt;me&lt;/b&gt;"' in shown
    assert '<a href="#display-name">Display name</a>: may have letters' in shown
    assert 'aria-invalid="true"' in shown


def test_why_a_final_run_is_not_ranked_is_said_to_its_learner_alone(board, entered, offering, child):
    ada = entered("ada")
    child().changes = {"within_budget": 0}
    compute_all()
    reason = "On the final instance it misses what the task requires: Extra copies fit the HBM budget."
    shown = text_of(browser_of(ada.learner).get(TASK))
    assert "What you handed in cannot be ranked." in shown and reason in shown
    assert reason not in text_of(browser_of(make_learner("bob", offering)).get(TASK))


def test_others_read_ranks_and_names_and_staff_scores_and_logins(board, entered, offering, child):
    for name in ("login-zq-a", "login-zq-b"):
        entered(name, f"The {name[-1]}")
    child(1.2345)
    compute_all()
    shown = text_of(browser_of(make_learner("looking", offering)).get(TASK))
    assert "The a" in shown and "login-zq" not in shown and "1.2345" not in shown
    staff = browser_of(Learner.objects.create_user("root", is_staff=True))
    for address in (TASK, URL):
        shown = text_of(staff.get(address))
        assert "login-zq-a" in shown and "1.2345" in shown


def test_the_task_page_shows_the_first_ten_and_leads_to_all(board, entered, offering, child, learner, page):
    for number in range(12):
        entered(f"person-{number}", f"Name {number:02}")
    child(1.5)
    compute_all()
    shown = text_of(page.get(TASK))
    assert "Name 09" in shown and "Name 10" not in shown
    assert f'<a href="{URL}">All 12 ranks</a>' in shown
    assert "Name 11" in text_of(page.get(URL))


@pytest.mark.parametrize("number", ["0", "2", "nonsense", "9" * 30])
def test_a_page_that_is_not_there_is_the_nearest_that_is(board, page, number):
    assert page.get(URL, {"page": number}).status_code == 200


@pytest.mark.parametrize("change", [{"published": False}, {"leaderboard": False}])
def test_the_pages_of_a_board_that_is_off_are_not_there(board, page, change):
    LabTask.objects.update(**change)
    assert page.get(URL).status_code == page.post(URL).status_code == 404
    assert page.post(f"{URL}withdraw/").status_code == 404
    if change.get("leaderboard") is False:
        assert "Leaderboard" not in text_of(page.get(TASK))


def test_who_is_not_in_the_class_sees_no_names(board, entered, child):
    entered("ada")
    child()
    compute_all()
    stranger = browser_of(Learner.objects.create_user("stranger"))
    assert "The ada" not in text_of(stranger.get(TASK))
    assert stranger.get(URL).status_code == 302


def test_in_a_closed_class_nobody_enters_and_a_name_can_still_be_changed(
    board, page, learner, graded, entered
):
    graded(learner)
    bob = entered("bob")
    Offering.objects.update(closes_at="2020-01-01T00:00:00Z")
    assert "the class is closed now" in text_of(page.get(TASK))
    assert page.post(URL, {"display_name": "Too late"}).status_code == 403
    assert "Change the name" in text_of(browser_of(bob.learner).get(TASK))


def test_too_many_entries_are_told_to_wait(board, page, learner, graded, settings):
    graded(learner)
    settings.THROTTLE_RATES = {**settings.THROTTLE_RATES, "submission": (1, 60)}
    page.post(URL, {"display_name": "First name"})
    assert page.post(URL, {"display_name": "Second name"}).status_code == 429
    assert FinalRun.objects.count() == 1
