"""The first answer to a request that carried an Idempotency-Key, kept for a day."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class KeyedAnswer(models.Model):
    """`status` is null while the first request is under way; its lease says for how long that is believed."""

    digest = models.CharField(max_length=64, unique=True, help_text="Of learner, path and key.")
    learner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="keyed_answers"
    )
    fingerprint = models.CharField(max_length=64, help_text="Of the body.")
    lease = models.UUIDField(null=True, default=uuid.uuid4)
    lease_expires_at = models.DateTimeField(null=True)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__isnull=False) | Q(lease__isnull=False),
                name="keyed_answer_is_there_or_under_way",
            )
        ]

    def __str__(self) -> str:
        return f"{self.digest[:8]} of {self.learner}"
