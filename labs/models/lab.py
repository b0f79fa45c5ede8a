"""A lab is a job of the catalogue that learners may run; a task is an activity on it with a rubric."""

import logging
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from pydantic import ValidationError as InvalidRubric

from labs.criteria import AnyCriterion
from labs.models.traces import Trace
from labs.rubric import Rubric, scalar_metrics, unknown_names
from quiz.models import Activity
from simworkers import catalog, jobs
from simworkers.inputs import trace_fields

log = logging.getLogger(__name__)


class Lab(models.Model):
    """The slug is the job's name in the catalogue; the texts are the author's."""

    slug = models.SlugField(unique=True)
    title = models.CharField(max_length=200)
    summary = models.TextField(blank=True, help_text="Markdown.")
    default_trace = models.ForeignKey(
        Trace,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="default_of",
        limit_choices_to={"learner": None, "file__state": "ready"},
        help_text="What the value default means where this lab takes a recorded trace; one that is offered.",
    )

    def __str__(self) -> str:
        return self.title

    @property
    def opening(self) -> str:
        """The summary's first paragraph, for lists."""
        return self.summary.partition("\n\n")[0]

    @property
    def job(self) -> jobs.Job:
        """Raises catalog.UnknownLab where the row outlived its job."""
        return catalog.get_job(self.slug)

    def clean(self) -> None:
        if self.slug not in catalog.job_names():
            raise ValidationError({"slug": f"No such job; there are: {', '.join(catalog.job_names())}."})
        if self.default_trace_id and not trace_fields(self.job.params):
            raise ValidationError({"default_trace": "This lab takes no recorded trace."})


class LabTask(models.Model):
    """A graded task: what is drawn, what the learner may set, and how the report is judged."""

    class Better(models.TextChoices):
        MORE = "more", "More is better"
        LESS = "less", "Less is better"

    activity = models.OneToOneField(Activity, on_delete=models.CASCADE, related_name="lab_task")
    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="tasks")
    kind = models.SlugField(
        help_text="The kind of task in the lab's catalogue entry; it draws the instances."
    )
    prompt = models.TextField(help_text="What to do; Markdown.")
    rubric = models.JSONField(help_text="Criteria: metric, how it is judged, points, feedback when missed.")
    staff_points = models.JSONField(
        default=list, blank=True, help_text="Points of a strong explanation: a JSON list of sentences."
    )
    attempts_allowed = models.PositiveSmallIntegerField(default=3)
    published = models.BooleanField(default=False)
    leaderboard = models.BooleanField(
        default=False, help_text="Learners may let themselves be ranked, each under a name of their choosing."
    )
    leaderboard_metric = models.CharField(
        max_length=100,
        blank=True,
        help_text="A single-number metric of the lab, measured on the final instance.",
    )
    leaderboard_better = models.CharField(max_length=4, choices=Better, default=Better.MORE)

    def __str__(self) -> str:
        return self.activity.title

    @property
    def slug(self) -> str:
        return self.activity.slug

    @property
    def task_kind(self) -> jobs.TaskKind:
        return self.lab.job.tasks[self.kind]

    def parsed_rubric(self) -> Rubric:
        """Raises pydantic's ValidationError; clean() has refused such a rubric before."""
        return Rubric.model_validate(self.rubric)

    def readable_rubric(self) -> Rubric | None:
        """None, and an error in the log, where what is stored is no rubric any more: one task's fault must not take
        the others' pages away."""
        try:
            return self.parsed_rubric()
        except InvalidRubric as exc:
            log.error("the rubric of task %s cannot be read, its runs cannot be judged: %s", self.slug, exc)
            return None

    def criteria(self) -> tuple[AnyCriterion, ...]:
        """Of its rubric, in order; none where that cannot be read."""
        rubric = self.readable_rubric()
        return rubric.criteria if rubric else ()

    def clean(self) -> None:
        errors: dict[str, Any] = {}
        if self.activity_id and self.activity.kind != Activity.Kind.LAB_TASK:
            errors["activity"] = "Must be an activity of the kind lab task."
        if self.lab_id:
            if self.kind not in self.lab.job.tasks:
                known = ", ".join(self.lab.job.tasks)
                errors["kind"] = f"The lab {self.lab.slug} knows: {known}."
            else:
                errors |= self.rubric_errors()
            errors |= self.leaderboard_errors()
        points = self.staff_points
        if not isinstance(points, list) or not all(
            isinstance(point, str) and point.strip() for point in points
        ):
            errors["staff_points"] = "Must be a list of sentences."
        if errors:
            raise ValidationError(errors)

    def rubric_errors(self) -> dict[str, list[str]]:
        try:
            parsed = self.parsed_rubric()
        except InvalidRubric as exc:
            places = [".".join(str(part) for part in error["loc"]) for error in exc.errors()]
            return {
                "rubric": [
                    f"{place or 'rubric'}: {e['msg']}" for place, e in zip(places, exc.errors(), strict=True)
                ]
            }
        problems = unknown_names(parsed, self.lab.job, self.task_kind)
        return {"rubric": problems} if problems else {}

    def leaderboard_errors(self) -> dict[str, str]:
        name = self.leaderboard_metric
        if not name:
            missing = "A leaderboard needs a metric to rank by."
            return {"leaderboard_metric": missing} if self.leaderboard else {}
        if name not in scalar_metrics(self.lab.job):
            return {"leaderboard_metric": f"The lab {self.lab.slug} has no single-number metric {name!r}."}
        return {}
