from decimal import Decimal

import pytest

from quiz import services
from quiz.errors import InvalidInput
from quiz.models import Grade, GradeChange
from tests.quiz.builders import make_learner


@pytest.fixture
def record(learner, offering, quiz):
    def record(score, **values):
        return services.record_grade(
            learner=learner, offering=offering, activity=quiz.activity, score=score, source="a test", **values
        )

    return record


@pytest.fixture
def override(learner, offering, quiz):
    def override(score, reason="agreed in person"):
        by = make_learner("staff", is_staff=True)
        return services.set_manual_grade(
            learner=learner, offering=offering, activity=quiz.activity, score=score, reason=reason, by=by
        )

    return override


def test_a_first_result_of_exactly_zero_is_a_grade(record):
    grade = record(0)
    assert (grade.score, grade.revision) == (0, 1)
    assert grade.changes.get().old_score is None


def test_a_better_result_raises_the_grade_and_leaves_an_audit_row(record):
    record("0.25")
    grade = record("0.75")
    assert (grade.score, grade.revision) == (Decimal("0.75"), 2)
    change = grade.changes.get(revision=2)
    assert (change.old_score, change.new_score, change.source) == (Decimal("0.25"), Decimal("0.75"), "a test")


@pytest.mark.parametrize("later", ["0.5", "0.2", 0])
def test_an_equal_or_worse_result_changes_nothing(record, later):
    record("0.5")
    grade = record(later)
    assert (grade.score, grade.revision) == (Decimal("0.5"), 1)
    assert GradeChange.objects.count() == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -0.1, 1.01, "one"])
def test_what_is_no_score_is_refused_and_leaves_nothing(record, bad):
    with pytest.raises(ValueError):
        record(bad)
    assert not Grade.objects.exists()


def test_a_grade_set_by_hand_may_be_lower_and_survives_better_results(record, override):
    record("0.5")
    assert override("0.3").score == Decimal("0.3")
    grade = record(1)
    assert (grade.score, grade.revision, grade.manual) == (Decimal("0.3"), 2, True)


def test_a_grade_set_by_hand_records_who_and_why(override):
    change = override("0.9").changes.get()
    assert (change.changed_by.username, change.reason) == ("staff", "agreed in person")


def test_a_grade_set_by_hand_needs_a_reason(override):
    with pytest.raises(InvalidInput) as caught:
        override("0.9", reason="  ")
    assert caught.value.errors[0][0] == "/reason"
    assert not Grade.objects.exists()


def test_confirming_an_earned_score_by_hand_is_a_revision_of_its_own(record, override):
    record("0.5")
    assert override("0.5").revision == 2


def test_points_are_score_times_the_points_of_the_activity(record):
    assert record("0.3333").points == Decimal("1.67")


def test_progress_counts_zero_as_done_and_adds_points(record, learner, offering, quiz):
    before = services.progress_of(learner=learner, offering=offering)
    record(0)
    after = services.progress_of(learner=learner, offering=offering)
    assert (before.text, after.text) == ("0 / 1 done", "1 / 1 done")
    assert (after.points, after.points_possible) == (Decimal("0.00"), Decimal("5.00"))
