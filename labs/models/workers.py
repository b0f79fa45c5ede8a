"""Workers, as they report themselves: what they can compute, and that they are alive."""

import uuid
from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class WorkerQuerySet(models.QuerySet["Worker"]):
    def live(self) -> Self:
        """Seen lately; a worker reports at every sweep."""
        silence = timedelta(seconds=max(3 * settings.SWEEP_INTERVAL_S, 15))
        return self.filter(seen_at__gte=Now() - silence)


class Worker(models.Model):
    """One worker process. `engine_versions` maps each lab to the version of it that this process computes."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    slots = models.PositiveSmallIntegerField(help_text="Runs that it computes at the same time.")
    engine_versions = models.JSONField()
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    objects = WorkerQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"

    @property
    def long_slots(self) -> int:
        """Long runs that it takes at the same time: one slot is kept free for short ones, if there are two."""
        return max(1, self.slots - 1)

    def report(self) -> None:
        """Say that it is alive; a row that was cleared away meanwhile is made anew."""
        if not Worker.objects.filter(pk=self.pk).update(seen_at=Now()):
            self.save(force_insert=True)

    def computes(self) -> dict[str, Any]:
        return dict(self.engine_versions)
