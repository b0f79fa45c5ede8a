from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from quiz import services
from quiz.errors import Closed, Conflict, InvalidInput, NotEnrolled, UsedUp
from quiz.models import Attempt, Grade, Question
from tests.quiz.builders import make_course, make_learner, make_offering, publish


@pytest.fixture
def attempt(learner, quiz, offering) -> Attempt:
    return services.start_attempt(learner=learner, quiz=quiz, offering=offering)[0]


def save(attempt, position=1, choice="b", confidence=None, sequence=1):
    return services.save_response(
        attempt=attempt, position=position, choice=choice, confidence=confidence, sequence=sequence
    )


def close(offering):
    offering.closes_at = timezone.now() - timedelta(seconds=1)
    offering.save()


def test_starting_again_hands_out_the_open_attempt(attempt, learner, quiz, offering):
    assert services.start_attempt(learner=learner, quiz=quiz, offering=offering) == (attempt, False)


def test_no_more_attempts_than_allowed(attempt, learner, quiz, offering):
    services.submit_attempt(attempt=attempt)
    second, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    services.submit_attempt(attempt=second)
    with pytest.raises(UsedUp):
        services.start_attempt(learner=learner, quiz=quiz, offering=offering)


def test_only_those_in_the_class_may_start(quiz, offering):
    with pytest.raises(NotEnrolled):
        services.start_attempt(learner=make_learner("eve"), quiz=quiz, offering=offering)


def test_a_class_of_another_course_is_refused(learner, quiz):
    other = make_offering(make_course("other"), "other")
    services.enroll(learner=learner, offering=other)
    with pytest.raises(InvalidInput):
        services.start_attempt(learner=learner, quiz=quiz, offering=other)


def test_nothing_starts_before_the_class_opens(learner, quiz, offering):
    offering.opens_at = timezone.now() + timedelta(days=1)
    offering.save()
    with pytest.raises(Closed):
        services.start_attempt(learner=learner, quiz=quiz, offering=offering)


def test_a_question_without_published_version_is_not_served_and_not_counted(learner, quiz, offering):
    quiz.places.create(question=Question.objects.create(slug="unwritten"), position=9)
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    for position in (1, 2):
        save(attempt, position)
    assert services.submit_attempt(attempt=attempt).score == 1


def test_an_attempt_keeps_the_versions_it_was_served(attempt, quiz):
    question = quiz.places.get(position=1).question
    publish(question, number=2, stem="A newer wording")
    assert attempt.responses.get(position=1).version.number == 1
    assert services.served_versions(quiz)[0].number == 2


def test_a_stale_write_is_refused_and_the_newer_answer_stays(attempt):
    save(attempt, choice="a", sequence=1)
    save(attempt, choice="b", confidence=70, sequence=2)
    with pytest.raises(Conflict):
        save(attempt, choice="c", sequence=2)
    with pytest.raises(Conflict):
        save(attempt, choice="a", sequence=1)
    stored = attempt.responses.get(position=1)
    assert (stored.choice, stored.confidence, stored.sequence) == ("b", 70, 2)


def test_the_same_write_sent_again_is_answered_as_the_first_time(attempt):
    first = save(attempt, choice="a", confidence=50, sequence=1)
    again = save(attempt, choice="a", confidence=50, sequence=1)
    assert (again.pk, again.updated_at) == (first.pk, first.updated_at)


def test_an_empty_choice_clears_the_answer(attempt):
    save(attempt, choice="b", sequence=1)
    assert save(attempt, choice="", sequence=2).choice == ""


@pytest.mark.parametrize(
    ("choice", "confidence", "field"), [("z", None, "/choice"), ("a", 101, "/confidence")]
)
def test_a_bad_answer_names_its_field_and_is_not_stored(attempt, choice, confidence, field):
    with pytest.raises(InvalidInput) as caught:
        save(attempt, choice=choice, confidence=confidence)
    assert [pointer for pointer, _ in caught.value.errors] == [field]
    assert attempt.responses.get(position=1).sequence == 0


def test_nothing_is_answered_after_submission(attempt):
    services.submit_attempt(attempt=attempt)
    with pytest.raises(Conflict):
        save(attempt)


def test_after_closing_nothing_is_answered_but_what_was_answered_counts(attempt, offering):
    save(attempt, 1, "b")
    close(offering)
    with pytest.raises(Closed):
        save(attempt, 2, "b")
    assert services.submit_attempt(attempt=attempt).score == Decimal("0.5")


def test_submission_marks_and_grades(attempt):
    save(attempt, 1, "b")
    save(attempt, 2, "a")
    submitted = services.submit_attempt(attempt=attempt)
    assert submitted.score == Decimal("0.5")
    assert [r.credit for r in submitted.responses.all()] == [1, 0]
    grade = Grade.objects.get()
    assert (grade.score, grade.changes.get().source) == (Decimal("0.5"), f"quiz attempt {attempt.public_id}")


def test_submitting_nothing_is_a_grade_of_zero(attempt):
    services.submit_attempt(attempt=attempt)
    assert Grade.objects.get().score == 0


def test_submitting_again_returns_the_first_result(attempt):
    first = services.submit_attempt(attempt=attempt)
    again = services.submit_attempt(attempt=attempt)
    assert (again.score, again.submitted_at) == (first.score, first.submitted_at)
    assert Grade.objects.get().revision == 1


def test_confidence_never_changes_the_score(attempt):
    save(attempt, 1, "b", confidence=0)
    save(attempt, 2, "b", confidence=100)
    assert services.submit_attempt(attempt=attempt).score == 1


def test_the_best_attempt_counts(attempt, learner, quiz, offering):
    save(attempt, 1, "b")
    services.submit_attempt(attempt=attempt)
    second, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    services.submit_attempt(attempt=second)
    assert Grade.objects.get().score == Decimal("0.5")
