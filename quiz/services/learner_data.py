"""What the course holds of a person: handed out whole, and erased so that grades stay and nobody stands behind them."""

import uuid
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import models, transaction
from knox.models import AuthToken

from quiz.errors import Conflict
from quiz.models import Attempt, Grade, GradeChange, KeyedAnswer, Learner

# What the tables of the admin's log say of a row that is no more, or that nobody shall recognise.
ERASED = "erased"


def course_data(*, learner: Learner) -> dict[str, Any]:
    """All that the course holds of a learner, as JSON can say it; no password, no token, no key."""
    return {
        "learner": {
            "public_id": str(learner.public_id),
            "username": learner.username,
            "first_name": learner.first_name,
            "last_name": learner.last_name,
            "email": learner.email,
            "joined_at": learner.date_joined.isoformat(),
            "last_signed_in_at": stamp(learner.last_login),
        },
        "classes": [
            {"class": row.offering.slug, "role": row.role, "since": row.created_at.isoformat()}
            for row in learner.enrollments.select_related("offering").order_by("pk")
        ],
        "quiz_attempts": [quiz_attempt_data(row) for row in learner.attempts.order_by("pk")],
        "grades": [grade_data(row) for row in learner.grades.select_related("activity", "offering")],
        "tokens": [
            {"created_at": stamp(row.created), "expires_at": stamp(row.expiry)}
            for row in AuthToken.objects.filter(user=learner).order_by("created")
        ],
    }


def stamp(time: Any) -> str | None:
    return time.isoformat() if time else None


def quiz_attempt_data(attempt: Attempt) -> dict[str, Any]:
    """What was answered; credit stays out while the attempt is open, as everywhere."""
    return {
        "public_id": str(attempt.public_id),
        "quiz": attempt.quiz.activity.slug,
        "class": attempt.offering.slug,
        "number": attempt.number,
        "state": attempt.state,
        "score": text_of(attempt.score),
        "started_at": attempt.started_at.isoformat(),
        "submitted_at": stamp(attempt.submitted_at),
        "responses": [
            {
                "position": row.position,
                "question": row.version.question.slug,
                "version": row.version.number,
                "choice": row.choice,
                "confidence": row.confidence,
                "credit": text_of(row.credit) if attempt.state == Attempt.State.SUBMITTED else None,
                "updated_at": row.updated_at.isoformat(),
            }
            for row in attempt.responses.select_related("version__question").order_by("position")
        ],
    }


def grade_data(grade: Grade) -> dict[str, Any]:
    return {
        "activity": grade.activity.slug,
        "class": grade.offering.slug,
        "score": str(grade.score),
        "manual": grade.manual,
        "updated_at": grade.updated_at.isoformat(),
        "changes": [
            {
                "revision": row.revision,
                "old_score": text_of(row.old_score),
                "new_score": str(row.new_score),
                "source": row.source,
                "reason": row.reason,
                "at": row.created_at.isoformat(),
            }
            for row in grade.changes.order_by("revision")
        ],
    }


def text_of(score: Any) -> str | None:
    return None if score is None else str(score)


@transaction.atomic
def erase_course_data(*, learner: Learner) -> dict[str, int]:
    """Erase the person; how many rows of what went. Grades and their audit rows stay, behind a name that nobody bears.

    Conflict for staff: what they did to others' grades is on record under their name; somebody decides that first.
    """
    row = lock_person(learner)
    lock_rows(row.attempts.all())
    scrub_admin_log(
        Learner.objects.filter(pk=row.pk), row.enrollments.all(), row.grades.all(), row.attempts.all()
    )
    gone = {
        "quiz attempts": row.attempts.count(),
        "classes": row.enrollments.count(),
        "tokens": AuthToken.objects.filter(user=row).count(),
    }
    for rows in (row.attempts, row.enrollments, AuthToken.objects.filter(user=row)):
        rows.all().delete()
    # Whoever wrote the reason may have named the person; who changed it, how, and from what to what stays.
    GradeChange.objects.filter(grade__learner=row).exclude(reason="").update(reason=ERASED)
    row.public_id = uuid.uuid4()
    row.username = f"{ERASED}-{row.public_id.hex[:12]}"
    row.first_name = row.last_name = row.email = ""
    row.last_login = None
    row.is_active = False
    row.set_unusable_password()  # ends every session: each is tied to the password
    row.groups.clear()
    row.user_permissions.clear()
    row.save()
    # Last: whoever claims a key locks nothing, and may do it until the row above is written.
    KeyedAnswer.objects.filter(learner=row).delete()
    return gone


def lock_person(learner: Learner) -> Learner:
    """Before anything of theirs is erased: from here on nothing new begins under their name. Conflict for staff.

    Results that are being written down refer to the learner, so the row is locked against change, not against that:
    whoever writes one holds its run, which an erasure waits for with the learner locked.
    """
    row = Learner.objects.select_for_update(no_key=True).get(pk=learner.pk)
    if row.is_staff:
        raise Conflict(f"{row} is staff; take that right away first.")
    lock_rows(row.enrollments.all())
    return row


def lock_rows(*rows: models.QuerySet[Any]) -> None:
    """Until the transaction ends, before they are deleted: what others write that refers to them is there by now, and
    goes with them, or is refused. Without it, it could come between the deletion of such and of the rows.
    """
    for part in rows:
        list(part.select_for_update().order_by("pk").values_list("pk"))


def scrub_admin_log(*rows: models.QuerySet[Any]) -> None:
    """The admin's log quotes rows as they are shown: with the learner's name. That somebody changed them stays."""
    for part in rows:
        kind = ContentType.objects.get_for_model(part.model)
        keys = [str(key) for key in part.values_list("pk", flat=True)]
        LogEntry.objects.filter(content_type=kind, object_id__in=keys).update(
            object_repr=ERASED, change_message=""
        )
