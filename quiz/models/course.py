"""Content that classes share (Course, Section, Activity) and what belongs to one class (Offering, Enrollment)."""

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone


class Course(models.Model):
    """A track: sections to read and activities to do, as data."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=200)
    summary = models.TextField(blank=True, help_text="One or two sentences; Markdown.")
    level = models.CharField(max_length=40, blank=True, help_text="For instance: advanced.")
    minutes = models.PositiveSmallIntegerField(default=0, help_text="Expected reading time in minutes.")

    def __str__(self) -> str:
        return self.title


class Section(models.Model):
    """A piece of the track's text, in reading order."""

    course = models.ForeignKey(Course, on_delete=models.CASCADE, related_name="sections")
    slug = models.SlugField()
    position = models.PositiveSmallIntegerField()
    title = models.CharField(max_length=200)
    body = models.TextField(help_text="Markdown.")

    class Meta:
        ordering = ["course", "position"]
        constraints = [
            models.UniqueConstraint(fields=["course", "slug"], name="section_slug_once_per_course"),
            models.UniqueConstraint(fields=["course", "position"], name="section_position_once_per_course"),
        ]

    def __str__(self) -> str:
        return self.title


class Activity(models.Model):
    """Something that is graded. What it is stands in the Quiz or the lab task that points here."""

    class Kind(models.TextChoices):
        QUIZ = "quiz", "Quiz"
        LAB_TASK = "lab_task", "Lab task"

    course = models.ForeignKey(Course, on_delete=models.CASCADE, related_name="activities")
    kind = models.CharField(max_length=20, choices=Kind)
    slug = models.SlugField(unique=True)
    position = models.PositiveSmallIntegerField()
    title = models.CharField(max_length=200)
    points = models.DecimalField(max_digits=7, decimal_places=2, validators=[MinValueValidator(0)])

    class Meta:
        ordering = ["course", "position"]
        verbose_name_plural = "activities"
        constraints = [
            models.UniqueConstraint(fields=["course", "position"], name="activity_position_once_per_course"),
        ]

    def __str__(self) -> str:
        return self.title


class Offering(models.Model):
    """A class: the people, dates, limits and grades of one run of a course."""

    course = models.ForeignKey(Course, on_delete=models.PROTECT, related_name="offerings")
    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=200)
    self_enrolment = models.BooleanField(default=False, help_text="Anyone signed in may join.")
    opens_at = models.DateTimeField(null=True, blank=True, help_text="Empty: open since ever.")
    closes_at = models.DateTimeField(null=True, blank=True, help_text="Empty: never closes.")
    learners = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Enrollment", related_name="offerings"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(opens_at__isnull=True)
                | models.Q(closes_at__isnull=True)
                | models.Q(opens_at__lt=models.F("closes_at")),
                name="offering_opens_before_it_closes",
            )
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def is_open(self) -> bool:
        now = timezone.now()
        return (self.opens_at is None or self.opens_at <= now) and (
            self.closes_at is None or now < self.closes_at
        )


class Enrollment(models.Model):
    """A person in a class. Its row is what attempts are counted under: lock it to open one."""

    class Role(models.TextChoices):
        LEARNER = "learner", "Learner"
        ASSISTANT = "assistant", "Assistant"
        INSTRUCTOR = "instructor", "Instructor"

    offering = models.ForeignKey(Offering, on_delete=models.CASCADE, related_name="enrollments")
    learner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="enrollments"
    )
    role = models.CharField(max_length=20, choices=Role, default=Role.LEARNER)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["offering", "learner"], name="enrolled_once_per_offering"),
        ]

    def __str__(self) -> str:
        return f"{self.learner} in {self.offering}"
