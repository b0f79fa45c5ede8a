"""A run is a submission and its way to a result. The row is the truth; the broker only wakes workers.

Every change of state is one conditional UPDATE whose row count says whether it was won. Leases are measured by
the database's clock, since workers' clocks differ.
"""

import uuid
from datetime import timedelta
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from labs.models.attempts import TaskAttempt
from labs.models.lab import Lab
from labs.models.traces import TraceFile
from labs.models.workers import Worker


class RunQuerySet(models.QuerySet["Run"]):
    def for_learner(self, learner: Any) -> Self:
        return self.filter(learner=learner)

    def shown_to(self, learner: Any) -> Self:
        """A learner's runs, with all that a page or a document of one names."""
        return self.for_learner(learner).select_related(
            "lab",
            "task_attempt__task__activity",
            "task_attempt__task__lab",
            "task_attempt__offering__course",
            "varied_from",
        )

    def active(self) -> Self:
        return self.filter(state__in=Run.ACTIVE)

    def lease_expired(self) -> Self:
        return self.filter(state=Run.State.RUNNING, lease_expires_at__lt=Now())

    def waiting_unheard(self, seconds: float) -> Self:
        """Queued, and the last message was sent so long ago that it may be lost."""
        return self.filter(state=Run.State.QUEUED).filter(
            Q(sent_at__isnull=True) | Q(sent_at__lt=Now() - timedelta(seconds=seconds))
        )


class Run(models.Model):
    class State(models.TextChoices):
        QUEUED = "queued", "Queued"
        RUNNING = "running", "Running"
        GRADED = "graded", "Graded"
        FAILED = "failed", "Failed"
        CANCELLED = "cancelled", "Cancelled"
        TIMED_OUT = "timed_out", "Timed out"

    ACTIVE = (State.QUEUED, State.RUNNING)

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="runs")
    learner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="runs")
    task_attempt = models.ForeignKey(
        TaskAttempt, null=True, blank=True, on_delete=models.RESTRICT, related_name="runs"
    )
    params = models.JSONField(help_text="All parameters, validated, defaults and locked ones included.")
    artefact = models.JSONField(
        null=True, help_text="What the learner handed in beside parameters, if the task asks."
    )
    varied_from = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="variations",
        help_text="The run that this one repeats with one cause altered.",
    )
    traces = models.ManyToManyField(
        TraceFile,
        blank=True,
        related_name="runs",
        help_text="The files that its parameters name; kept for as long as its report.",
    )
    seed = models.BigIntegerField()
    prediction = models.JSONField(null=True)

    state = models.CharField(max_length=20, choices=State, default=State.QUEUED)
    lease = models.UUIDField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    tries = models.PositiveSmallIntegerField(default=0)
    leases_expired = models.PositiveSmallIntegerField(
        default=0, help_text="How often its worker fell silent and the run was taken back."
    )
    steps_done = models.PositiveIntegerField(default=0, help_text="Finished simulation steps.")
    steps_total = models.PositiveIntegerField(null=True)
    reason = models.TextField(
        blank=True, help_text="Why it failed, timed out or was cancelled; for the learner."
    )
    fault = models.TextField(blank=True, help_text="What exactly went wrong; for staff.")

    worker = models.ForeignKey(
        Worker,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="runs",
        help_text="Of the last try.",
    )
    is_long = models.BooleanField(
        default=False, help_text="Expected to take long; one slot is kept free of these."
    )
    engine_version = models.CharField(
        max_length=64, help_text="Of the lab when it was submitted; only a worker that has it takes the run."
    )
    report = models.JSONField(null=True)
    report_removed_at = models.DateTimeField(
        null=True,
        help_text="When the report was let go, having been kept for as long as the site keeps them.",
    )
    provenance = models.JSONField(null=True)
    reused = models.BooleanField(default=False, help_text="The report is that of an equal earlier run.")
    sheet = models.JSONField(null=True, help_text="The criteria as judged.")
    rubric_hash = models.CharField(
        max_length=16,
        blank=True,
        help_text="Of the rubric by which it was judged last; empty for a free run.",
    )
    score = models.DecimalField(max_digits=5, decimal_places=4, null=True)

    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, help_text="When its message was last sent to the broker.")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    figures_sent_at = models.DateTimeField(null=True, help_text="When drawing was last asked for.")
    figures_tries = models.PositiveSmallIntegerField(default=0)

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["task_attempt"],
                condition=Q(state__in=["queued", "running", "graded"]),
                name="one_live_or_graded_run_per_attempt",
            ),
            models.CheckConstraint(
                condition=Q(score__isnull=True) | Q(score__gte=0, score__lte=1),
                name="run_score_within_zero_and_one",
            ),
            models.CheckConstraint(
                condition=Q(report__isnull=False) | Q(report_removed_at__isnull=False) | ~Q(state="graded"),
                name="graded_run_has_or_had_its_report",
            ),
        ]
        indexes = [
            models.Index(fields=["state", "created_at"], name="run_state"),
            models.Index(fields=["learner", "state"], name="run_learner_state"),
            models.Index(fields=["finished_at"], name="run_finished_at"),
            models.Index(fields=["lab", "engine_version", "seed"], name="run_twins"),
            models.Index(
                fields=["leases_expired"], name="run_leases_expired", condition=Q(leases_expired__gt=0)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.lab} run {self.public_id}"

    @property
    def is_terminal(self) -> bool:
        return self.state not in self.ACTIVE

    @property
    def is_disclosed(self) -> bool:
        """Whether seed and drawn parameters may be shown: nothing of it is still to be judged."""
        return self.task_attempt is None or self.state == self.State.GRADED

    def disclosed_params(self) -> dict[str, Any]:
        """All parameters, or those that the learner has set while the rest is hidden."""
        if self.task_attempt is None or self.is_disclosed:
            return dict(self.params)
        # A run from before an upgrade lacks what the task has opened since.
        opened = self.task_attempt.task.task_kind.open_parameters
        return {name: self.params[name] for name in opened if name in self.params}

    def claim(self, lease_s: float, worker: Worker | None = None) -> bool:
        """Take a queued run for a worker. Of any number of callers one wins."""
        lease = uuid.uuid4()
        won = Run.objects.filter(pk=self.pk, state=self.State.QUEUED).update(
            state=self.State.RUNNING,
            lease=lease,
            worker=worker,
            lease_expires_at=Now() + timedelta(seconds=lease_s),
            tries=F("tries") + 1,
            started_at=Now(),
            steps_done=0,
            steps_total=None,
        )
        if won:
            self.refresh_from_db()
        return won == 1 and self.lease == lease

    def held(self) -> RunQuerySet:
        """This row while this lease holds it; what every later change filters by."""
        return Run.objects.filter(pk=self.pk, state=self.State.RUNNING, lease=self.lease)

    def beat(self, lease_s: float, steps: tuple[int, int] | None) -> bool:
        """Renew the lease and note progress. False: cancelled, or another worker has it."""
        values: dict[str, Any] = {"lease_expires_at": Now() + timedelta(seconds=lease_s)}
        if steps is not None:
            values |= {"steps_done": steps[0], "steps_total": steps[1]}
        return self.held().update(**values) == 1


class Figure(models.Model):
    """A picture of a run: the Vega-Lite spec, its data as a table, and rendered for where no script runs."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="figures")
    name = models.SlugField()
    position = models.PositiveSmallIntegerField()
    title = models.CharField(max_length=200)
    caption = models.TextField(blank=True)
    spec = models.JSONField()
    table = models.JSONField()
    svg_light = models.TextField()
    svg_dark = models.TextField()
    png = models.BinaryField()

    class Meta:
        ordering = ["run", "position"]
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="figure_once_per_run")]

    def __str__(self) -> str:
        return f"{self.run}: {self.title}"
