"""A learner's way through a quiz: start, answer, submit."""

from django.db import transaction
from django.utils import timezone

from quiz import marking
from quiz.errors import Closed, Conflict, InvalidInput, UsedUp
from quiz.models import Attempt, Learner, Offering, Option, QuestionVersion, Quiz, Response
from quiz.services.grades import record_grade
from quiz.services.people import lock_enrollment


@transaction.atomic
def start_attempt(*, learner: Learner, quiz: Quiz, offering: Offering) -> tuple[Attempt, bool]:
    """(attempt, whether it is new): an open attempt is handed out again, so that two starts make one.

    Closed, UsedUp or NotEnrolled where the rules say no. The attempt pins the versions it serves.
    """
    lock_enrollment(learner=learner, offering=offering)
    if offering.course_id != quiz.activity.course_id:
        raise InvalidInput([("/offering", "is a class of another course")])
    if not offering.is_open:
        raise Closed(f"{offering} is not open.")
    mine = Attempt.objects.filter(learner=learner, quiz=quiz, offering=offering)
    if unfinished := mine.filter(state=Attempt.State.OPEN).first():
        return unfinished, False
    used = mine.count()
    if used >= quiz.attempts_allowed:
        raise UsedUp(f"All {quiz.attempts_allowed} attempts at this quiz are used.")
    versions = served_versions(quiz)
    if not versions:
        raise Closed(f"{quiz} has no published question yet.")
    attempt = Attempt.objects.create(learner=learner, quiz=quiz, offering=offering, number=used + 1)
    Response.objects.bulk_create(
        Response(attempt=attempt, position=position, version=version)
        for position, version in enumerate(versions, start=1)
    )
    return attempt, True


def served_versions(quiz: Quiz) -> list[QuestionVersion]:
    """The newest published version of each question, in order; a question without one is not served."""
    places = quiz.places.select_related("question").order_by("position")
    versions = (place.question.current_version() for place in places)
    return [version for version in versions if version is not None]


@transaction.atomic
def save_response(
    *, attempt: Attempt, position: int, choice: str, confidence: int | None, sequence: int
) -> Response:
    """Store one answer. `sequence` must be above the stored one: a stale tab is refused and loses nothing.

    The same write sent again (its reply was lost) is answered as the first time. An empty choice clears.
    """
    owner = Attempt.objects.select_for_update(of=("self",)).select_related("offering").get(pk=attempt.pk)
    response = Response.objects.select_for_update().filter(attempt=owner, position=position).first()
    if response is None:
        raise InvalidInput([("/position", f"there is no question {position} in this attempt")])
    if owner.state != Attempt.State.OPEN:
        raise Conflict("This attempt is submitted; its answers no longer change.")
    if not owner.offering.is_open:
        raise Closed(f"{owner.offering} is closed; what was answered before can still be submitted.")
    refuse_bad_answer(response, choice, confidence)
    if sequence == response.sequence and (choice, confidence) == (response.choice, response.confidence):
        return response
    if sequence <= response.sequence:
        raise Conflict(
            f"Write {response.sequence} of this answer is stored already; {sequence} comes too late. Read the "
            "attempt again before answering.",
            errors=[("/sequence", f"must be above {response.sequence}")],
        )
    response.choice, response.confidence, response.sequence = choice, confidence, sequence
    response.save(update_fields=["choice", "confidence", "sequence", "updated_at"])
    return response


def refuse_bad_answer(response: Response, choice: str, confidence: int | None) -> None:
    errors = []
    if choice and not response.version.options.filter(key=choice).exists():
        errors.append(("/choice", f"{choice!r} is not an option of this question"))
    if confidence is not None and not 0 <= confidence <= 100:
        errors.append(("/confidence", "must lie between 0 and 100 percent"))
    if errors:
        raise InvalidInput(errors)


@transaction.atomic
def submit_attempt(*, attempt: Attempt) -> Attempt:
    """Mark what is stored and record the grade, once: a second submission gets the first one's result.

    After the class has closed it still counts what was answered before; nothing new can be answered then.
    """
    locked = Attempt.objects.select_for_update().get(pk=attempt.pk)
    if locked.state == Attempt.State.SUBMITTED:
        return locked
    responses = list(locked.responses.all())
    correct = dict(
        Option.objects.filter(correct=True, version__responses__attempt=locked).values_list("version", "key")
    )
    for response in responses:
        response.credit = marking.mark_choice(response.choice, correct[response.version_id])
    Response.objects.bulk_update(responses, ["credit"])
    locked.score = marking.mark_attempt([r.credit for r in responses if r.credit is not None])
    locked.state = Attempt.State.SUBMITTED
    locked.submitted_at = timezone.now()
    locked.save(update_fields=["score", "state", "submitted_at"])
    record_grade(
        learner=locked.learner,
        offering=locked.offering,
        activity=locked.quiz.activity,
        score=locked.score,
        source=f"quiz attempt {locked.public_id}",
    )
    return locked
