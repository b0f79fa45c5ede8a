"""Grades, and an audit row for every change of one."""

from decimal import Decimal

from django.conf import settings
from django.db import models

from quiz.models.course import Activity, Offering


class Grade(models.Model):
    """What a learner has for an activity in a class. `revision` grows with every change."""

    offering = models.ForeignKey(Offering, on_delete=models.PROTECT, related_name="grades")
    learner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="grades")
    activity = models.ForeignKey(Activity, on_delete=models.PROTECT, related_name="grades")
    score = models.DecimalField(max_digits=5, decimal_places=4)
    revision = models.PositiveIntegerField(default=1)
    manual = models.BooleanField(
        default=False, help_text="Set by staff; no run, attempt or regrade changes it."
    )
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["offering", "learner", "activity"], name="one_grade_per_activity"
            ),
            models.CheckConstraint(
                condition=models.Q(score__gte=0, score__lte=1), name="grade_score_within_zero_and_one"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.learner}: {self.activity} {self.score}"

    @property
    def points(self) -> Decimal:
        return (self.score * self.activity.points).quantize(Decimal("0.01"))


class GradeChange(models.Model):
    """One change of a grade: from what, to what, why and by whom. Never edited."""

    grade = models.ForeignKey(Grade, on_delete=models.CASCADE, related_name="changes")
    revision = models.PositiveIntegerField()
    old_score = models.DecimalField(max_digits=5, decimal_places=4, null=True)
    new_score = models.DecimalField(max_digits=5, decimal_places=4)
    source = models.CharField(max_length=200, help_text="What caused it: a run, an attempt, a person.")
    reason = models.TextField(blank=True)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="grade_changes",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["grade", "revision"]
        constraints = [
            models.UniqueConstraint(fields=["grade", "revision"], name="one_change_per_revision"),
        ]

    def __str__(self) -> str:
        return f"{self.grade} r{self.revision}"
