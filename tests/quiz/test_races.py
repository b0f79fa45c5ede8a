"""Many at once, on a real database file: threads with a connection each."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection

from quiz import services
from quiz.errors import Conflict, InvalidInput, UsedUp
from quiz.models import Attempt, Enrollment, Grade, GradeChange, Learner
from tests.quiz.builders import enrolled, make_course, make_learner, make_offering, make_quiz

pytestmark = pytest.mark.django_db(transaction=True)
THREADS = 6


def at_once(call: Callable[[int], Any]) -> list[Any]:
    """What each of THREADS simultaneous calls returned or raised."""
    barrier = threading.Barrier(THREADS)
    results: list[Any] = [None] * THREADS

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = call(index)
        except Exception as exc:
            results[index] = exc
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.fixture
def scene():
    offering = make_offering(make_course())
    quiz = make_quiz(offering.course, attempts_allowed=1)
    return enrolled(make_learner(), offering), quiz, offering


def test_starts_at_once_make_one_attempt(scene):
    learner, quiz, offering = scene
    results = at_once(lambda _: services.start_attempt(learner=learner, quiz=quiz, offering=offering))
    assert sorted(created for _, created in results) == [False] * (THREADS - 1) + [True]
    assert Attempt.objects.count() == 1


def test_starting_and_submitting_at_once_never_exceeds_the_limit(scene):
    learner, quiz, offering = scene

    def sit(_: int) -> None:
        attempt, _created = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
        services.submit_attempt(attempt=attempt)

    results = at_once(sit)
    assert all(result is None or isinstance(result, UsedUp) for result in results), results
    assert Attempt.objects.count() == 1


def test_submissions_at_once_give_one_result_and_one_revision(scene):
    learner, quiz, offering = scene
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    results = at_once(lambda _: services.submit_attempt(attempt=attempt))
    assert len({result.submitted_at for result in results}) == 1
    assert GradeChange.objects.count() == 1


def test_of_writes_with_one_sequence_number_one_wins(scene):
    learner, quiz, offering = scene
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    results = at_once(
        lambda index: services.save_response(
            attempt=attempt, position=1, choice="b", confidence=index, sequence=1
        )
    )
    assert sum(not isinstance(result, Exception) for result in results) == 1
    assert sum(isinstance(result, Conflict) for result in results) == THREADS - 1


def test_results_at_once_keep_the_best_with_an_unbroken_record(scene):
    learner, quiz, offering = scene
    results = at_once(
        lambda index: services.record_grade(
            learner=learner, offering=offering, activity=quiz.activity, score=index / 10, source=str(index)
        )
    )
    assert not [result for result in results if isinstance(result, Exception)]
    grade = Grade.objects.get()
    assert float(grade.score) == (THREADS - 1) / 10
    assert list(grade.changes.values_list("revision", flat=True)) == list(range(1, grade.revision + 1))


def test_one_name_is_registered_once():
    results = at_once(lambda _: services.register_learner(username="ada", password="violet-turbine-41"))
    assert sum(isinstance(result, Learner) for result in results) == 1
    assert sum(isinstance(result, InvalidInput) for result in results) == THREADS - 1


def test_enrolling_at_once_makes_one_enrolment(scene):
    _, _, offering = scene
    newcomer = make_learner("bo")
    results = at_once(lambda _: services.enroll_oneself(learner=newcomer, offering=offering))
    assert sum(created for _, created in results) == 1
    assert Enrollment.objects.filter(learner=newcomer).count() == 1


def test_drafts_begun_at_once_are_one(scene):
    _, quiz, _ = scene
    question = quiz.places.get(position=1).question
    results = at_once(lambda _: services.start_draft(question=question))
    assert len({draft.pk for draft in results}) == 1


def test_of_one_name_in_many_spellings_one_is_registered(settings):
    spellings = ["grace", "Grace", "GRACE", "gRace", "grAce", "graCe"]
    results = at_once(
        lambda index: services.register_learner(username=spellings[index], password="violet-turbine-41")
    )
    assert Learner.objects.filter(username__iexact="grace").count() == 1
    assert sum(isinstance(result, InvalidInput) for result in results) == THREADS - 1


def test_the_table_itself_refuses_a_name_in_another_spelling():
    make_learner("grace")
    with pytest.raises(IntegrityError):
        make_learner("Grace")
