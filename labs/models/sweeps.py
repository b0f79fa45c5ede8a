"""A lab's explore sweep: a grid of runs that everybody shares, computed once for each version of the engine."""

from django.db import models

from labs.models.lab import Lab


class Sweep(models.Model):
    """`waiting` until a worker has computed it; whoever holds the lease is computing. The row is the truth."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        READY = "ready", "Ready"
        FAILED = "failed", "Failed"

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="sweeps")
    engine_version = models.CharField(max_length=64)
    state = models.CharField(max_length=20, choices=State, default=State.WAITING)
    lease = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0, help_text="How often a worker began to compute it.")
    reason = models.TextField(blank=True, help_text="Why the last try failed.")
    data = models.JSONField(null=True, help_text="Axes and measured arrays, as the lab reports them.")
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, help_text="When its message was last sent to the broker.")
    computed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "engine_version"], name="one_sweep_per_lab_and_version"),
            models.CheckConstraint(
                condition=models.Q(data__isnull=False) | ~models.Q(state="ready"),
                name="ready_sweep_has_its_data",
            ),
        ]

    def __str__(self) -> str:
        return f"Sweep of {self.lab} by {self.engine_version}"
