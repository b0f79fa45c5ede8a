"""Recorded traces: the file itself, kept once however many hand it in, and who holds it under which name."""

import uuid
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import Q

from labs.models.workers import Worker


class TraceFile(models.Model):
    """The bytes as they were sent, by their hash. `checking` until a worker has read them; the row is the truth."""

    class State(models.TextChoices):
        CHECKING = "checking", "Being checked"
        READY = "ready", "Ready"
        REFUSED = "refused", "Refused"

    digest = models.CharField(
        max_length=64, unique=True, help_text="SHA-256 of the file as sent; runs name it by this."
    )
    bytes_sent = models.PositiveIntegerField(help_text="Size of the file as sent, compressed if it was.")
    location = models.CharField(
        max_length=200, help_text="Its name in the storage; no other file ever has it."
    )
    state = models.CharField(max_length=20, choices=State, default=State.CHECKING)
    reason = models.TextField(blank=True, help_text="Why it was refused; for whoever holds it.")
    summary = models.JSONField(
        null=True, help_text="What the check counted, and what it noticed in its lines."
    )
    worker = models.ForeignKey(
        Worker,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="checks",
        help_text="Of the last try.",
    )
    lease = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0, help_text="How often a worker began to check it.")
    sent_at = models.DateTimeField(null=True, help_text="When its message was last sent to the broker.")
    created_at = models.DateTimeField(auto_now_add=True)
    checked_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(summary__isnull=False) | ~Q(state="ready"), name="ready_trace_has_its_summary"
            )
        ]

    def __str__(self) -> str:
        return f"trace {self.digest[:12]}"


class TraceQuerySet(models.QuerySet["Trace"]):
    def held_by(self, learner: Any) -> Self:
        return self.filter(learner=learner)

    def offered(self) -> Self:
        return self.filter(learner=None)

    def shown_to(self, learner: Any) -> Self:
        """One's own, and those that an author offers to everyone."""
        return self.filter(Q(learner=learner) | Q(learner=None)).select_related("file")


class Trace(models.Model):
    """Who holds a file, and what they call it. Without a learner it is offered to everyone."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    file = models.ForeignKey(TraceFile, on_delete=models.PROTECT, related_name="holds")
    learner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="traces"
    )
    name = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TraceQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["learner", "file"], name="trace_once_per_learner"),
            models.UniqueConstraint(
                fields=["file"], condition=Q(learner__isnull=True), name="trace_offered_once"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_offered(self) -> bool:
        return self.learner_id is None
