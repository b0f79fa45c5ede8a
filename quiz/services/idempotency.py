"""Answering a repeated request as the first time.

A key is claimed in a transaction of its own, so that everybody else sees at once that the first request is under
way. The effect and the answer are then written in one transaction: a crash leaves neither, and when the lease has
run out the same request sent again is carried out. A request that was slower than its lease finds at the end that
it lost it, and is rolled back.
"""

import hashlib
import uuid
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from quiz.errors import KeyInUse, KeyReused
from quiz.models import KeyedAnswer, Learner

KEPT = timedelta(hours=24)
# Requests take milliseconds; one that waits for a busy SQLite may take as long as its lock's time-out.
LEASE = timedelta(seconds=40)


def claim_key(*, learner: Learner, path: str, key: str, fingerprint: str) -> KeyedAnswer:
    """The key's row. With a `status` it holds the first answer; without one it is this caller's to fill.

    KeyReused where the key came with another body before, KeyInUse while the first request is under way.
    """
    digest = hashlib.sha256(f"{learner.public_id}\n{path}\n{key}".encode()).hexdigest()
    mine: dict[str, Any] = {
        "fingerprint": fingerprint,
        "lease": uuid.uuid4(),
        "lease_expires_at": Now() + LEASE,
    }
    KeyedAnswer.objects.filter(digest=digest, created_at__lt=Now() - KEPT).delete()
    row, created = KeyedAnswer.objects.get_or_create(digest=digest, defaults={"learner": learner, **mine})
    if created:
        return row
    if row.fingerprint != fingerprint:
        raise KeyReused("This Idempotency-Key came with another body before; use a new key.")
    if row.status is None:
        abandoned = KeyedAnswer.objects.filter(pk=row.pk, status=None, lease_expires_at__lt=Now())
        if not abandoned.update(**mine):
            raise KeyInUse("The first request with this Idempotency-Key is still under way.")
        row.lease = mine["lease"]
    return row


def keep_answer(*, row: KeyedAnswer, status: int, headers: dict[str, str], body: str) -> None:
    """Store the first answer. KeyInUse where another request has taken the key over; roll back then."""
    kept = held(row).update(status=status, headers=headers, body=body, lease=None, lease_expires_at=None)
    if not kept:
        raise KeyInUse("Another request with this Idempotency-Key took over.")


def release_key(*, row: KeyedAnswer) -> None:
    """Forget a key whose request had no effect and no answer worth keeping."""
    held(row).delete()


def held(row: KeyedAnswer) -> Any:
    return KeyedAnswer.objects.filter(pk=row.pk, lease=row.lease, status=None)


def forget_old_answers() -> int:
    """Delete what was kept long enough; returns how many."""
    deleted, _ = KeyedAnswer.objects.filter(created_at__lt=Now() - KEPT).delete()
    return deleted
