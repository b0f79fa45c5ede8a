"""Who is ranked on a leaderboard, in which order."""

from typing import Any

from labs.final_runs import compute_final_run
from labs.leaderboard import add_missing_final_runs, edition, enter, scale_of, standing_of
from labs.models import FinalRun, Lab, LabTask
from quiz.models import Enrollment
from tests.labs.conftest import make_learner
from tests.labs.leaderboards import board, child, compute_all, entered, graded, names, ranks

__all__ = ["board", "child", "entered", "graded"]  # fixtures


def by_slots(params: dict[str, Any]) -> float:
    """Fewer extra slots, more imbalance: a score that hangs on what was handed in."""
    return 2.0 - 0.1 * params["redundant_slots_per_gpu"]


def test_less_is_better_where_the_author_says_so_and_more_otherwise(board, offering, entered, child):
    for name, slots in (("ada", 1), ("bob", 3), ("eve", 2)):
        entered(name, redundant_slots_per_gpu=slots)
    child(by_slots)
    compute_all()
    assert ranks(board, offering) == [(1, "The bob"), (2, "The eve"), (3, "The ada")]
    board.leaderboard_better = LabTask.Better.MORE
    assert ranks(board, offering) == [(1, "The ada"), (2, "The eve"), (3, "The bob")]


def test_the_best_run_of_a_learner_counts_and_a_later_worse_one_lowers_nothing(
    board, offering, entered, child, graded
):
    ada = entered("ada", redundant_slots_per_gpu=3)
    entered("bob", redundant_slots_per_gpu=2)
    child(by_slots)
    compute_all()
    before = ranks(board, offering)
    graded(ada.learner, number=2, redundant_slots_per_gpu=0)
    add_missing_final_runs()
    child(by_slots)
    compute_all()
    assert ranks(board, offering) == before == [(1, "The ada"), (2, "The bob")]
    standing = standing_of(ada)
    assert (standing.rank, standing.score) == (1, 1.7)
    assert [final.score for final in standing.finals] == [1.7, 2.0]


def test_of_equal_scores_the_one_submitted_first_stands_first_whoever_entered_first(
    board, offering, graded, entered, child
):
    early = make_learner("early", offering)
    graded(early)
    entered("late")
    enter(learner=early, task=board, offering=offering, display_name="The early")
    child(1.25)
    for pk in FinalRun.objects.order_by("-pk").values_list("pk", flat=True):
        compute_final_run(pk)
    assert ranks(board, offering) == [(1, "The early"), (2, "The late")]


def test_scores_that_differ_in_the_last_bits_alone_are_equal(board, offering, entered, child):
    first, second = entered("ada"), entered("bob")
    worker = child()
    for entry, score in ((first, 1.2500000000000002), (second, 1.25)):
        worker.score = score
        compute_final_run(entry.final_runs.get().pk)
    assert ranks(board, offering) == [(1, "The ada"), (2, "The bob")]


def test_who_left_the_class_is_not_ranked(board, offering, entered, child):
    ada = entered("ada")
    entered("bob")
    child()
    compute_all()
    Enrollment.objects.filter(learner=ada.learner).delete()
    assert ranks(board, offering) == [(1, "The bob")]
    assert standing_of(ada).state == "left"


def test_scores_of_another_edition_are_not_ranked_and_are_computed_again(
    board, offering, entered, child, monkeypatch
):
    entered("ada")
    child(1.5)
    compute_all()
    assert names(board, offering) == ["The ada"]
    board.leaderboard_metric = "sampling_floor"
    board.save()
    assert names(board, offering) == []
    add_missing_final_runs()
    add_missing_final_runs()
    assert FinalRun.objects.count() == 2
    child(1.5)
    compute_all()
    assert names(board, offering) == ["The ada"]
    assert FinalRun.objects.get(edition=edition(board)).score == 1.0


def test_what_is_graded_after_entering_is_added_once(board, offering, entered, graded):
    ada = entered("ada")
    graded(ada.learner, number=2)
    graded(ada.learner, number=3, practice=True)
    graded(make_learner("eve", offering))
    for _ in range(3):
        add_missing_final_runs()
    assert FinalRun.objects.count() == 2


def test_a_new_edition_is_added_a_batch_at_a_time(board, offering, entered, monkeypatch):
    for number in range(3):
        entered(f"l{number}")
    monkeypatch.setattr("labs.leaderboard.BATCH", 2)
    board.leaderboard_metric = "sampling_floor"
    board.save()
    counts = []
    for _ in range(3):
        add_missing_final_runs()
        counts.append(FinalRun.objects.filter(edition=edition(board)).count())
    assert counts == [2, 3, 3]


def test_a_task_without_leaderboard_or_unpublished_gets_no_final_runs(board, offering, entered, graded):
    ada = entered("ada")
    graded(ada.learner, number=2)
    for change in ({"published": False}, {"published": True, "leaderboard": False}):
        LabTask.objects.filter(pk=board.pk).update(**change)
        add_missing_final_runs()
    assert FinalRun.objects.count() == 1


def test_a_board_calls_its_metric_what_the_report_calls_it():
    task = LabTask(lab=Lab(slug="agent-routing"), leaderboard_metric="waited_tokens_per_s")
    assert scale_of(task).title == "Output tokens per second of waiting"
