"""Who stands on a task's leaderboard, under which name, and the final runs by which they are ranked."""

import uuid
from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from labs.models.lab import LabTask
from labs.models.runs import Run
from quiz.models import Offering

NAME_LENGTH = 40


class LeaderboardEntry(models.Model):
    """A learner's wish to be ranked, in one class. It is made by nobody else, and goes when they withdraw it."""

    task = models.ForeignKey(LabTask, on_delete=models.CASCADE, related_name="leaderboard_entries")
    offering = models.ForeignKey(Offering, on_delete=models.CASCADE, related_name="leaderboard_entries")
    learner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="leaderboard_entries"
    )
    display_name = models.CharField(
        max_length=NAME_LENGTH, help_text="What others read; of the learner's own choosing."
    )
    name_key = models.CharField(
        max_length=3 * NAME_LENGTH,
        help_text="The name without what the eye overlooks, so that none passes for another.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "leaderboard entries"
        constraints = [
            models.UniqueConstraint(
                fields=["task", "offering", "learner"], name="leaderboard_entry_once_per_learner"
            ),
            models.UniqueConstraint(
                fields=["task", "offering", "name_key"], name="leaderboard_name_once_per_class_and_task"
            ),
        ]

    def __str__(self) -> str:
        # Without the name, which the admin's log would keep after the learner has withdrawn it.
        return f"Entry {self.pk} of the leaderboard of {self.task}"


class FinalRunQuerySet(models.QuerySet["FinalRun"]):
    def computable(self) -> Self:
        """Those that nobody is computing now."""
        free = Q(lease__isnull=True) | Q(lease_expires_at__lt=Now())
        return self.filter(free, state=FinalRun.State.WAITING)

    def unheard(self, seconds: float) -> Self:
        """The last message was never sent, or so long ago that it may be lost."""
        return self.filter(Q(sent_at__isnull=True) | Q(sent_at__lt=Now() - timedelta(seconds=seconds)))


class FinalRun(models.Model):
    """What a graded run handed in, computed on the task's final instance. It is no Run: no grade, no limit of runs and
    no page knows it, and of the instance it keeps nothing but the score.

    `waiting` until a worker has computed it; whoever holds the lease is computing. Ranked are those of the task's
    present edition (labs.leaderboard.edition): scores of another engine version or metric compare with none of them.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        READY = "ready", "Ready"
        REFUSED = "refused", "Cannot be ranked"
        FAILED = "failed", "Failed"

    entry = models.ForeignKey(LeaderboardEntry, on_delete=models.CASCADE, related_name="final_runs")
    run = models.ForeignKey(
        Run, on_delete=models.CASCADE, related_name="final_runs", help_text="The graded run that it repeats."
    )
    edition = models.CharField(max_length=32, help_text="Names all that makes two scores comparable.")
    engine_version = models.CharField(
        max_length=64, help_text="Of the lab; only a worker that has it computes this."
    )
    state = models.CharField(max_length=20, choices=State, default=State.WAITING)
    score = models.FloatField(null=True, help_text="The task's leaderboard metric, nine significant digits.")
    reason = models.TextField(blank=True, help_text="Why it cannot be ranked; for the learner.")
    fault = models.TextField(
        blank=True, help_text="What exactly went wrong; for staff, it may quote the instance."
    )
    lease = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0, help_text="How often a worker began to compute it.")
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, help_text="When its message was last sent to the broker.")
    computed_at = models.DateTimeField(null=True)

    objects = FinalRunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "edition"], name="one_final_run_per_run_and_edition"),
            models.CheckConstraint(
                condition=Q(state="ready", score__isnull=False) | ~Q(state="ready") & Q(score__isnull=True),
                name="final_run_has_a_score_when_ready",
            ),
        ]
        indexes = [
            models.Index(fields=["sent_at"], name="final_run_waiting", condition=Q(state="waiting")),
        ]

    def __str__(self) -> str:
        return f"Final run of {self.run}"

    def claim(self, lease_s: float) -> bool:
        """Take a waiting final run. Of any number of callers one wins."""
        lease = uuid.uuid4()
        won = (
            FinalRun.objects.computable()
            .filter(pk=self.pk)
            .update(lease=lease, lease_expires_at=Now() + timedelta(seconds=lease_s), tries=F("tries") + 1)
        )
        if not won:
            return False
        self.lease = lease
        self.tries += 1
        return True

    def held(self) -> FinalRunQuerySet:
        """This row while this lease holds it; what every later change filters by."""
        return FinalRun.objects.filter(pk=self.pk, state=self.State.WAITING, lease=self.lease)

    def beat(self, lease_s: float) -> bool:
        """Renew the lease. False: withdrawn, or another worker has it."""
        return self.held().update(lease_expires_at=Now() + timedelta(seconds=lease_s)) == 1

    def end(self, state: State, **values: Any) -> bool:
        """A terminal state, if this worker still holds the lease."""
        ended = self.held().update(
            state=state, lease=None, lease_expires_at=None, computed_at=Now(), **values
        )
        return ended == 1
