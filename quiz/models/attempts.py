"""A learner's way through a quiz."""

import uuid

from django.conf import settings
from django.core.validators import MaxValueValidator
from django.db import models

from quiz.models.course import Offering
from quiz.models.questions import QuestionVersion, Quiz


class Attempt(models.Model):
    """One sitting. Its responses pin the question versions that were served."""

    class State(models.TextChoices):
        OPEN = "open", "Open"
        SUBMITTED = "submitted", "Submitted"

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    quiz = models.ForeignKey(Quiz, on_delete=models.PROTECT, related_name="attempts")
    offering = models.ForeignKey(Offering, on_delete=models.PROTECT, related_name="attempts")
    learner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    state = models.CharField(max_length=20, choices=State, default=State.OPEN)
    score = models.DecimalField(max_digits=5, decimal_places=4, null=True, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    submitted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["quiz", "offering", "learner", "number"], name="attempt_number_once_per_learner"
            ),
            models.UniqueConstraint(
                fields=["quiz", "offering", "learner"],
                condition=models.Q(state="open"),
                name="one_open_attempt_per_learner",
            ),
            models.CheckConstraint(
                condition=models.Q(score__isnull=True) | models.Q(score__gte=0, score__lte=1),
                name="attempt_score_within_zero_and_one",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quiz}, attempt {self.number} of {self.learner}"


class Response(models.Model):
    """The answer to one served question; made empty when the attempt starts."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="responses")
    position = models.PositiveSmallIntegerField()
    version = models.ForeignKey(QuestionVersion, on_delete=models.PROTECT, related_name="responses")
    choice = models.CharField(
        max_length=1, blank=True, help_text="Key of the chosen option; empty: none yet."
    )
    confidence = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=[MaxValueValidator(100)],
        help_text="Percent; never changes the score.",
    )
    sequence = models.PositiveIntegerField(
        default=0, help_text="Grows with every write; a stale one is refused."
    )
    credit = models.DecimalField(max_digits=5, decimal_places=4, null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["attempt", "position"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "position"], name="response_once_per_position"),
        ]

    def __str__(self) -> str:
        return f"{self.attempt}, question {self.position}"
