"""What a learner writes after a graded run, checked against the points of a staff answer."""

from django.conf import settings
from django.db import models

from labs.models.runs import Run


class Explanation(models.Model):
    """Why the run came out as it did. The staff points are shown once the text stands, and pinned here.

    The learner ticks the points that the text makes; staff may comment, and override the ticks with a reason.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="explanation")
    text = models.TextField()
    points = models.JSONField(help_text="The staff answer's points as they were shown: a list of sentences.")
    self_check = models.JSONField(null=True, help_text="One true or false a point, by the learner.")
    written_at = models.DateTimeField(auto_now_add=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    staff_check = models.JSONField(
        null=True, blank=True, help_text="One true or false a point, by staff; overrides the learner's."
    )
    staff_comment = models.TextField(blank=True)
    staff = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="explanations_read",
    )

    def __str__(self) -> str:
        return f"Explanation of {self.run}"

    @property
    def points_made(self) -> int | None:
        check = self.staff_check if self.staff_check is not None else self.self_check
        return None if check is None else sum(check)
