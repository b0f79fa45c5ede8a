"""Making people, and putting them into classes."""

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from knox.models import AuthToken
from knox.settings import knox_settings

from quiz.errors import Closed, Conflict, InvalidInput, NotEnrolled
from quiz.models import Course, Enrollment, Learner, Offering


def register_learner(*, username: str, password: str) -> Learner:
    """A new account. InvalidInput names the field: name taken or malformed, password too weak."""
    learner = Learner(username=Learner.normalize_username(username))
    errors = [("/username", text) for text in username_faults(learner)]
    try:
        validate_password(password, user=learner)
    except ValidationError as exc:
        errors += [("/password", text) for text in exc.messages]
    if errors:
        raise InvalidInput(errors)
    learner.set_password(password)
    try:
        with transaction.atomic():
            learner.save()
    except IntegrityError as exc:
        # Somebody took the name between our look and our write.
        raise InvalidInput([("/username", "is taken")]) from exc
    return learner


def username_faults(learner: Learner) -> list[str]:
    try:
        learner.clean_fields(exclude=["password"])
    except ValidationError as exc:
        return exc.message_dict.get("username", exc.messages)
    # "Ada" beside "ada" would let one pass for the other.
    if Learner.objects.filter(username__iexact=learner.username).exists():
        return ["is taken"]
    return []


@transaction.atomic
def enroll(
    *, learner: Learner, offering: Offering, role: Enrollment.Role = Enrollment.Role.LEARNER
) -> tuple[Enrollment, bool]:
    """(enrolment, whether it is new). Enrolling twice leaves the first one, and its role, as it is.

    Conflict where the account was closed, or the learner erased.
    """
    lock_learner(learner=learner)
    return Enrollment.objects.get_or_create(learner=learner, offering=offering, defaults={"role": role})


def enroll_oneself(*, learner: Learner, offering: Offering) -> tuple[Enrollment, bool]:
    """As `enroll`, where the class lets people join by themselves and is open."""
    if found := Enrollment.objects.filter(learner=learner, offering=offering).first():
        return found, False
    if not offering.self_enrolment:
        raise NotEnrolled(f"{offering} takes nobody by self-enrolment; ask its instructor.")
    if not offering.is_open:
        raise Closed(f"{offering} is not open.")
    return enroll(learner=learner, offering=offering)


def visible_offerings(*, learner: Learner) -> QuerySet[Offering]:
    """The classes that a person is in or may join; staff see all. What others read is behind them."""
    if learner.is_staff:
        return Offering.objects.all()
    mine = Enrollment.objects.filter(learner=learner).values("offering")
    return Offering.objects.filter(Q(self_enrolment=True) | Q(pk__in=mine))


def choose_offering(*, learner: Learner, course: Course, slug: str | None = None) -> Offering:
    """The named class, or the only one of the course that the learner is in."""
    mine = Offering.objects.filter(course=course, enrollments__learner=learner)
    if slug is not None:
        offering = mine.filter(slug=slug).first()
        if offering is None:
            raise NotEnrolled(
                f"You are not enrolled in {slug}.", errors=[("/offering", "you are not enrolled in it")]
            )
        return offering
    found = list(mine[:2])
    if not found:
        raise NotEnrolled(f"You are not enrolled in any class of {course}.")
    if len(found) > 1:
        raise InvalidInput([("/offering", "you are in several classes of this course: name one")])
    return found[0]


def lock_learner(*, learner: Learner) -> Learner:
    """The row under which a learner's runs, traces and tokens are counted, locked until the transaction ends.

    Conflict where the account was closed, or the learner erased, since they signed in.
    """
    locked = Learner.objects.select_for_update(no_key=True).get(
        pk=learner.pk
    )  # others may refer to it meanwhile
    if not locked.is_active:
        raise Conflict("This account was closed.")
    return locked


def lock_enrollment(*, learner: Learner, offering: Offering) -> Enrollment:
    """The row under which a learner's attempts are counted, locked until the transaction ends.

    SQLite knows no row locks; there the IMMEDIATE transaction around it does the same.
    """
    enrollment = Enrollment.objects.select_for_update().filter(learner=learner, offering=offering).first()
    if enrollment is None:
        raise NotEnrolled(f"You are not enrolled in {offering}.")
    return enrollment


@transaction.atomic
def issue_token(*, learner: Learner) -> tuple[AuthToken, str]:
    """(row, secret): the secret is shown once. Above the limit of REST_KNOX the oldest token goes."""
    lock_learner(learner=learner)
    kept = knox_settings.TOKEN_LIMIT_PER_USER - 1
    surplus = AuthToken.objects.filter(user=learner).order_by("-created")[kept:]
    AuthToken.objects.filter(pk__in=[token.pk for token in surplus]).delete()
    issued: tuple[AuthToken, str] = AuthToken.objects.create(learner)
    return issued
