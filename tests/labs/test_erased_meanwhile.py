"""Whoever is erased is erased whole, whatever is written under their name at the same moment."""

from functools import partial
from typing import Any

import pytest

from labs.drawing import draw_run_figures
from labs.leaderboard import add_missing_final_runs, enter, withdraw
from labs.learner_data import erase_learner
from labs.models import Explanation, Figure, FinalRun, LeaderboardEntry, Run, TaskAttempt
from labs.preparation import prepare_attempt
from labs.reflection import explain_run
from labs.services import open_attempt, submit_run
from quiz.models import Learner
from quiz.services import enroll, start_attempt, submit_attempt
from tests.labs.at_once import meanwhile
from tests.labs.conftest import execute, report_for
from tests.labs.test_services import submit
from tests.labs.trace_files import ready
from tests.quiz.builders import make_offering, make_quiz

pytestmark = pytest.mark.django_db(transaction=True)


def count_of(learner: Learner) -> dict[str, int]:
    return {
        "runs": Run.objects.filter(learner=learner).count(),
        "attempts": TaskAttempt.objects.filter(learner=learner).count(),
    }


GONE = {"runs": 0, "attempts": 0}


def test_an_attempt_that_opens_while_its_learner_is_erased_is_erased(
    learner, task, traced, offering, simulation, stored
):
    offered = ready(None)
    traced.default_trace = offered
    traced.save()
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    simulation({"params": {"trace": "default"}, "visible": {}, "seed": 1})
    with meanwhile('DELETE FROM "labs_taskattempt" ', lambda: prepare_attempt(attempt.pk)) as failures:
        erase_learner(learner)
    assert (count_of(learner), failures) == (GONE, [])


@pytest.mark.parametrize("statement", ['SELECT "labs_run"', 'DELETE FROM "labs_run" '])
def test_a_run_that_is_graded_while_its_learner_is_erased_is_erased(
    learner, attempt, simulation, statement, caplog
):
    run = submit(attempt)
    simulation(report_for(run))
    with meanwhile(statement, lambda: execute(run)) as failures:
        erase_learner(learner)
    assert (count_of(learner), failures) == (GONE, [])
    assert "trying again" not in caplog.text


DRAWN = {
    "name": {
        "title": "Load",
        "caption": "",
        "spec": {},
        "table": {},
        "svg_light": "<svg/>",
        "svg_dark": "<svg/>",
        "png_base64": "",
    }
}


def test_a_run_that_is_erased_while_its_figures_are_drawn_gets_none(learner, attempt, simulation):
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)

    def draw(kwargs: Any, on_beat: Any) -> Any:
        erase_learner(learner)
        return DRAWN

    simulation(draw)
    draw_run_figures(run.pk)
    assert (count_of(learner), Figure.objects.count()) == (GONE, 0)


def test_figures_that_are_stored_while_their_learner_is_erased_are_erased(learner, attempt, simulation):
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    simulation(DRAWN)
    with meanwhile("INSERT ", lambda: erase_learner(learner)) as failures:
        draw_run_figures(run.pk)
    assert (count_of(learner), Figure.objects.count(), failures) == (GONE, 0, [])


def test_a_run_that_is_explained_while_its_learner_is_erased_is_erased(learner, attempt, simulation):
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    with meanwhile('DELETE FROM "labs_run" ', lambda: explain_run(run=run, text="Because.")) as failures:
        erase_learner(learner)
    assert (count_of(learner), Explanation.objects.count()) == (GONE, 0)
    assert [str(failure) for failure in failures] == ["This account was closed."]


@pytest.mark.parametrize("statement", ['DELETE FROM "labs_run" ', 'UPDATE "quiz_learner" '])
def test_a_run_that_comes_in_while_its_learner_is_erased_is_refused(learner, attempt, lab, statement):
    submit(attempt)
    with meanwhile(statement, lambda: submit_run(learner=learner, lab=lab, params={})) as failures:
        erase_learner(learner)
    assert count_of(learner) == GONE
    assert [str(failure) for failure in failures] == ["This account was closed."]


def test_a_quiz_that_is_begun_while_its_learner_is_erased_is_refused(learner, offering):
    quiz = make_quiz(offering.course)
    attempt, _ = start_attempt(learner=learner, quiz=quiz, offering=offering)
    submit_attempt(attempt=attempt)
    act = partial(start_attempt, learner=learner, quiz=quiz, offering=offering)
    with meanwhile('DELETE FROM "quiz_attempt" ', act) as failures:
        erase_learner(learner)
    assert not learner.attempts.exists()
    assert [str(failure) for failure in failures] == [f"You are not enrolled in {offering}."]


@pytest.mark.parametrize("statement", ['DELETE FROM "quiz_enrollment" ', 'UPDATE "quiz_learner" '])
def test_whoever_joins_a_class_while_they_are_erased_is_refused(learner, offering, statement):
    second = make_offering(offering.course, slug="second")
    with meanwhile(statement, lambda: enroll(learner=learner, offering=second)) as failures:
        erase_learner(learner)
    assert not learner.enrollments.exists()
    assert [str(failure) for failure in failures] == ["This account was closed."]


def test_a_place_on_a_board_is_withdrawn_while_the_sweeper_asks_for_its_final_runs(
    learner, attempt, simulation
):
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    task = attempt.task
    entry, _ = enter(learner=learner, task=task, offering=attempt.offering, display_name="Someone")
    FinalRun.objects.all().delete()
    with meanwhile('DELETE FROM "labs_leaderboardentry" ', add_missing_final_runs) as failures:
        withdraw(entry=entry)
    assert (LeaderboardEntry.objects.count(), FinalRun.objects.count(), failures) == (0, 0, [])
