"""Questions. A published version never changes: an edit makes the next one."""

from typing import Any

from django.db import models
from django.db.models import Q

from quiz.errors import Conflict
from quiz.models.course import Activity


class Quiz(models.Model):
    """Questions in order, as one activity."""

    activity = models.OneToOneField(Activity, on_delete=models.CASCADE, related_name="quiz")
    attempts_allowed = models.PositiveSmallIntegerField(default=3)
    questions: "models.ManyToManyField[Question, QuizQuestion]" = models.ManyToManyField(
        "Question", through="QuizQuestion", related_name="quizzes"
    )

    class Meta:
        verbose_name_plural = "quizzes"

    def __str__(self) -> str:
        return self.activity.title


class Question(models.Model):
    """What stays the same over all versions: the name, and the activity that shows the answer at work."""

    slug = models.SlugField(unique=True)
    activity = models.ForeignKey(
        Activity,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="questions",
        help_text="The lab task that shows the answer at work.",
    )

    def __str__(self) -> str:
        return self.slug

    def current_version(self) -> "QuestionVersion | None":
        """What is served now: the newest published version."""
        return self.versions.filter(published_at__isnull=False).order_by("-number").first()


class QuizQuestion(models.Model):
    quiz = models.ForeignKey(Quiz, on_delete=models.CASCADE, related_name="places")
    question = models.ForeignKey(Question, on_delete=models.PROTECT, related_name="places")
    position = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["quiz", "position"]
        constraints = [
            models.UniqueConstraint(fields=["quiz", "position"], name="question_position_once_per_quiz"),
            models.UniqueConstraint(fields=["quiz", "question"], name="question_once_per_quiz"),
        ]

    def __str__(self) -> str:
        return f"{self.quiz} {self.position}"


class QuestionVersion(models.Model):
    """The wording of a question. A draft may be edited; once published, neither it nor its options change."""

    class Kind(models.TextChoices):
        SINGLE_CHOICE = "single_choice", "Single choice"

    question = models.ForeignKey(Question, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveSmallIntegerField(editable=False)
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.SINGLE_CHOICE)
    stem = models.TextField(help_text="The question; Markdown.")
    explanation = models.TextField(
        help_text="Why the right answer is right; Markdown. Shown after submission."
    )
    staff_points = models.JSONField(
        default=list, blank=True, help_text="Points of a strong answer: a JSON list of sentences."
    )
    published_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["question", "number"]
        constraints = [
            models.UniqueConstraint(fields=["question", "number"], name="version_number_once_per_question"),
            models.UniqueConstraint(
                fields=["question"], condition=Q(published_at__isnull=True), name="one_draft_per_question"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.question} v{self.number}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        refuse_if_published(self.pk)
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        refuse_if_published(self.pk)
        return super().delete(*args, **kwargs)

    @property
    def is_published(self) -> bool:
        return self.published_at is not None


class Option(models.Model):
    version = models.ForeignKey(QuestionVersion, on_delete=models.CASCADE, related_name="options")
    key = models.CharField(max_length=1, help_text="a, b, c …")
    text = models.TextField(help_text="Markdown.")
    correct = models.BooleanField(default=False)
    feedback = models.TextField(help_text="What the learner who chose this should hear; Markdown.")

    class Meta:
        ordering = ["version", "key"]
        constraints = [
            models.UniqueConstraint(fields=["version", "key"], name="option_key_once_per_version"),
            models.UniqueConstraint(
                fields=["version"], condition=Q(correct=True), name="one_correct_option_per_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} {self.key}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        refuse_if_published(self.version_id)
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        refuse_if_published(self.version_id)
        return super().delete(*args, **kwargs)


def refuse_if_published(version_id: int | None) -> None:
    """Asks the database, since the instance in hand may be older than the publication."""
    published = QuestionVersion.objects.filter(published_at__isnull=False)
    if version_id is not None and published.filter(pk=version_id).exists():
        raise Conflict("This version is published and never changes; an edit makes the next version.")
