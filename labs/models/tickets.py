"""One-use tickets for a run's event stream: a browser's EventSource can send no Authorization header."""

from django.db import models
from django.db.models.functions import Now

from labs.models.runs import Run


class StreamTicket(models.Model):
    """Only a digest is stored. `used_at` is set by one conditional UPDATE, so of two users one wins."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="stream_tickets")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"ticket for {self.run_id}"
