"""A drawn instance of a task, for one learner."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from labs.models.lab import LabTask
from labs.models.traces import TraceFile
from quiz.models import Offering
from simworkers.catalog import engine_version


class TaskAttempt(models.Model):
    """`preparing` while a worker draws the instance; `open` until a run of it is graded.

    A run that our side spoils gives the attempt back: it is open again, with the same instance and the
    prediction that was made. A practice attempt has a public seed, and counts nowhere.
    """

    class State(models.TextChoices):
        PREPARING = "preparing", "Preparing"
        OPEN = "open", "Open"
        GRADED = "graded", "Graded"
        FAILED = "failed", "Could not be prepared"

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    task = models.ForeignKey(LabTask, on_delete=models.PROTECT, related_name="attempts")
    offering = models.ForeignKey(Offering, on_delete=models.PROTECT, related_name="task_attempts")
    learner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="task_attempts"
    )
    number = models.PositiveSmallIntegerField()
    practice = models.BooleanField(default=False)
    state = models.CharField(max_length=20, choices=State, default=State.PREPARING)
    draw_seed = models.BigIntegerField(help_text="From which the instance is drawn; hidden unless practice.")
    instance = models.JSONField(null=True, help_text="The drawn parameters and the run's seed; hidden.")
    visible = models.JSONField(null=True, help_text="What the learner sees of the instance.")
    engine_version = models.CharField(
        max_length=64,
        blank=True,
        help_text="Of the lab when the instance was drawn; another one cannot judge it.",
    )
    traces = models.ManyToManyField(
        TraceFile,
        blank=True,
        related_name="attempts",
        help_text="The files that its instance names; kept for as long as a run of it may be submitted.",
    )
    prediction = models.JSONField(null=True, help_text="Locked by the first run submitted.")
    tries = models.PositiveSmallIntegerField(default=0, help_text="How often a worker began to prepare it.")
    lease = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, help_text="When its message was last sent to the broker.")
    opened_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["task", "offering", "learner", "practice", "number"],
                name="task_attempt_number_once_per_learner",
            ),
            models.CheckConstraint(
                condition=Q(instance__isnull=False) | ~Q(state__in=["open", "graded"]),
                name="open_task_attempt_has_its_instance",
            ),
        ]
        indexes = [models.Index(fields=["state", "created_at"], name="task_attempt_state")]

    def __str__(self) -> str:
        return f"{self.task}, attempt {self.number} of {self.learner}"

    @property
    def is_outdated(self) -> bool:
        """Drawn by another version of the lab: what it shows may not be what a run would meet."""
        return self.state == self.State.OPEN and self.engine_version != engine_version(self.task.lab.slug)
