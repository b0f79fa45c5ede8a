"""Letting a stream in: a ticket is made over REST by who may read the run, and is good once, for a minute."""

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now

from labs.models import Run, StreamTicket
from quiz.errors import Refusal

# For so long a used or expired ticket can still be told from one that never was.
REMEMBERED = timedelta(minutes=10)


class BadTicket(Refusal):
    """Missing, unknown, used or expired: fetch a new one."""

    status = 401
    slug = "invalid-ticket"
    title = "This ticket lets nobody in"
    headers = {"WWW-Authenticate": "Ticket"}


class ForeignTicket(Refusal):
    """A good ticket for another run of the same learner."""

    status = 403
    slug = "ticket-of-another-run"
    title = "This ticket is for another run"


class NoSuchRun(Refusal):
    """Somebody else's run, or none."""

    status = 404
    slug = "not-found"
    title = "Not Found"


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def issue_ticket(*, run: Run) -> tuple[StreamTicket, str]:
    """(row, secret); the secret is shown once."""
    secret = secrets.token_urlsafe(32)
    life = timedelta(seconds=settings.STREAM_TICKET_S)
    ticket = StreamTicket.objects.create(run=run, digest=digest_of(secret), expires_at=Now() + life)
    ticket.refresh_from_db()
    return ticket, secret


def redeem_ticket(*, secret: str, run_id: str) -> Run:
    """The run that this ticket is for, if it is the one asked for; the ticket is used up then.

    A ticket shown at another run's address is not used up.
    """
    if not secret:
        raise BadTicket("A ticket is needed: POST …/stream-tickets/ makes one.")
    found = StreamTicket.objects.filter(digest=digest_of(secret))
    ticket = found.select_related("run").first()
    if ticket is None:
        raise BadTicket("There is no such ticket.")
    if str(ticket.run.public_id) != run_id:
        if Run.objects.filter(public_id=run_id, learner=ticket.run.learner_id).exists():
            raise ForeignTicket("The ticket was made for another run.")
        raise NoSuchRun("There is no such run, or it is somebody else's.")
    if not found.filter(used_at=None, expires_at__gt=Now()).update(used_at=Now()):
        ticket.refresh_from_db(fields=["used_at"])
        raise BadTicket(
            f"The ticket {'was used before' if ticket.used_at else 'has expired'}; make a new one."
        )
    return ticket.run


def forget_old_tickets() -> int:
    """Delete what nobody can use any more; returns how many."""
    deleted, _ = StreamTicket.objects.filter(expires_at__lt=Now() - REMEMBERED).delete()
    return deleted
