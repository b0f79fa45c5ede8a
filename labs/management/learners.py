"""Naming a learner on a command line."""

import uuid

from django.core.management.base import CommandError

from quiz.models import Learner


def find_learner(text: str) -> Learner:
    """By username, in whichever case, or public id."""
    found = Learner.objects.filter(username__iexact=text).first()
    if found is None:
        try:
            found = Learner.objects.filter(public_id=uuid.UUID(text)).first()
        except ValueError:
            found = None
    if found is None:
        raise CommandError(f"learner: there is no {text!r}, by username or public id")
    return found
