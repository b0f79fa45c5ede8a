"""Entering a leaderboard and withdrawing from it, one by one and at once."""

import pytest
from django.db import IntegrityError, transaction

from labs.leaderboard import add_missing_final_runs, enter, graded_runs, standing_of, withdraw
from labs.models import FinalRun, LeaderboardEntry, Run
from quiz.errors import Closed, Conflict, InvalidInput, NotEnrolled
from quiz.models import Learner, Offering
from tests.labs.conftest import make_learner
from tests.labs.leaderboards import at_once, board, child, compute_all, entered, graded, names, ranks

__all__ = ["board", "child", "entered", "graded"]  # fixtures


# Entering ------------------------------------------------------------------------------------------


def test_entering_needs_a_graded_run_and_practice_is_none(board, offering, learner, graded):
    graded(learner, practice=True)
    with pytest.raises(Conflict, match="once a run of this task is graded"):
        enter(learner=learner, task=board, offering=offering, display_name="Quiet router")
    assert not LeaderboardEntry.objects.exists()


def test_entering_makes_one_final_run_for_each_graded_run_and_wakes_a_worker(
    board, offering, learner, graded, messages, django_capture_on_commit_callbacks
):
    runs = [graded(learner, number=1), graded(learner, number=2)]
    messages.clear()
    with django_capture_on_commit_callbacks(execute=True):
        entry, is_new = enter(learner=learner, task=board, offering=offering, display_name="Quiet router")
    finals = list(FinalRun.objects.order_by("pk"))
    assert is_new and [final.run for final in finals] == runs
    assert messages == [("labs.compute_final_run", final.pk) for final in finals]
    assert standing_of(entry).state == "computing"


def test_entering_twice_changes_the_name_and_computes_nothing_anew(board, offering, entered, child):
    entry = entered("ada", "First name")
    child()
    compute_all()
    again, is_new = enter(learner=entry.learner, task=board, offering=offering, display_name="Second name")
    assert (again.pk, is_new) == (entry.pk, False)
    assert names(board, offering) == ["Second name"]
    assert FinalRun.objects.count() == 1


def test_a_closed_class_takes_no_new_entry_but_lets_a_name_be_changed(board, offering, entered, graded):
    entry = entered("ada")
    late = make_learner("late", offering)
    graded(late)
    Offering.objects.update(closes_at="2020-01-01T00:00:00Z")
    offering.refresh_from_db()
    with pytest.raises(Closed):
        enter(learner=late, task=board, offering=offering, display_name="Too late")
    enter(learner=entry.learner, task=board, offering=offering, display_name="Renamed")


def test_who_is_in_no_class_cannot_enter(board, offering):
    stranger = Learner.objects.create_user("stranger")
    with pytest.raises(NotEnrolled):
        enter(learner=stranger, task=board, offering=offering, display_name="Nobody")


# Withdrawing ---------------------------------------------------------------------------------------


def test_withdrawing_leaves_neither_name_nor_score_and_touches_no_run(board, offering, entered, child):
    ada = entered("ada")
    child()
    compute_all()
    runs = list(Run.objects.values())
    withdraw(entry=ada)
    assert not LeaderboardEntry.objects.exists() and not FinalRun.objects.exists()
    assert list(Run.objects.values()) == runs
    add_missing_final_runs()
    assert not FinalRun.objects.exists()


def test_who_withdrew_may_enter_again_and_keeps_their_place_among_equals(board, offering, entered, child):
    ada, bob = entered("ada"), entered("bob")
    withdraw(entry=ada)
    enter(learner=ada.learner, task=board, offering=offering, display_name="Ada again")
    child(1.25)
    compute_all()
    assert ranks(board, offering) == [(1, "Ada again"), (2, bob.display_name)]


# Races ---------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_of_many_who_want_a_name_at_once_one_gets_it(board, offering, graded):
    learners = [make_learner(f"l{n}", offering) for n in range(4)]
    for learner in learners:
        graded(learner)
    outcomes = at_once(
        *(
            lambda one=learner: enter(learner=one, task=board, offering=offering, display_name="Quiet router")
            for learner in learners
        )
    )
    assert sum(isinstance(outcome, tuple) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, InvalidInput) for outcome in outcomes) == 3
    assert LeaderboardEntry.objects.count() == FinalRun.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_learner_who_enters_many_times_at_once_has_one_entry_and_one_final_run(
    board, offering, graded, learner
):
    graded(learner)
    outcomes = at_once(
        *(
            lambda n=n: enter(learner=learner, task=board, offering=offering, display_name=f"Name {n}")
            for n in range(4)
        )
    )
    assert all(isinstance(outcome, tuple) for outcome in outcomes), outcomes
    assert sum(is_new for _, is_new in outcomes) == 1
    assert LeaderboardEntry.objects.count() == FinalRun.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_sweepers_that_add_final_runs_at_once_while_learners_withdraw_break_nothing(
    board, offering, entered, graded
):
    entries = [entered(f"l{n}") for n in range(3)]
    for entry in entries:
        graded(entry.learner, number=2)
    outcomes = at_once(
        *[add_missing_final_runs] * 3, lambda: withdraw(entry=entries[0]), lambda: withdraw(entry=entries[1])
    )
    assert outcomes == [None] * 5
    assert FinalRun.objects.count() == 2
    assert graded_runs(board).count() == 6


def test_the_tables_themselves_allow_one_final_run_a_run_and_edition(board, entered):
    final = entered("ada").final_runs.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        FinalRun.objects.create(entry=final.entry, run=final.run, edition=final.edition, engine_version="x")
    with pytest.raises(IntegrityError), transaction.atomic():
        FinalRun.objects.update(state=FinalRun.State.READY)
