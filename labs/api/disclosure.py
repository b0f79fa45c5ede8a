"""What leaves of a run. Seeds, locked parameters and truths stay inside until it is graded."""

from typing import Any

from drf_spectacular.utils import (
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.reverse import reverse

from labs.models import Figure, Run
from labs.rubric import compare_prediction
from labs.scheduling import expected_wait_s, queue_position, waits_in_vain


class ProgressSerializer(serializers.Serializer[Any]):
    done = serializers.IntegerField(help_text="Finished simulation steps.")
    total = serializers.IntegerField(allow_null=True, help_text="Null until the child has begun.")


class QueueSerializer(serializers.Serializer[Any]):
    position = serializers.IntegerField(help_text="Runs that are served before it.")
    expected_wait_s = serializers.FloatField(
        allow_null=True, help_text="By the latest runs' duration; null while no live worker can take it."
    )
    problem = serializers.CharField(
        allow_null=True,
        help_text="Why no live worker can take it: none is there, or none has its engine version. Else null.",
    )


class FigureLinkSerializer(serializers.ModelSerializer[Figure]):
    url = serializers.SerializerMethodField()

    class Meta:
        model = Figure
        fields = ["name", "title", "caption", "url"]

    def get_url(self, figure: Figure) -> str:
        run: Run = self.context.get("run") or figure.run
        return reverse("api-run-figure", args=[run.public_id, figure.name], request=self.context["request"])


class RunSerializer(serializers.ModelSerializer[Run]):
    url = serializers.HyperlinkedIdentityField(view_name="api-run", lookup_field="public_id")
    lab = serializers.CharField(source="lab.slug")
    task = serializers.SerializerMethodField(help_text="Slug of the task; null in free exploration.")
    task_attempt = serializers.SerializerMethodField(help_text="Id of the attempt; null in free exploration.")
    progress = serializers.SerializerMethodField()
    queue = serializers.SerializerMethodField(help_text="While queued: its place, and when it may start.")
    params = serializers.SerializerMethodField(
        help_text="Of a task's run only the open ones, until it is graded."
    )
    seed = serializers.SerializerMethodField(help_text="Of a task's run null, until it is graded.")
    varied_from = serializers.SerializerMethodField(help_text="Id of the run that this one repeats, altered.")
    metrics = serializers.SerializerMethodField(
        help_text="By the lab's schema `metrics`; null until graded, and once the report is removed."
    )
    invariants = serializers.SerializerMethodField(
        help_text="name → {state, first_event}; null until graded."
    )
    criteria = serializers.SerializerMethodField(help_text="The criteria as judged, with feedback.")
    prediction_check = serializers.SerializerMethodField(help_text="What was predicted beside what came out.")
    score = serializers.DecimalField(
        max_digits=5, decimal_places=4, allow_null=True, help_text="In [0, 1]; null without a task."
    )
    figures = serializers.SerializerMethodField(help_text="Links; drawn shortly after grading.")
    figures_ready = serializers.SerializerMethodField()
    provenance = serializers.JSONField(help_text="Versions, device and wall time; outside equality.")
    report_url = serializers.SerializerMethodField()

    class Meta:
        model = Run
        fields = [
            "url",
            "public_id",
            "lab",
            "task",
            "task_attempt",
            "state",
            "reason",
            "progress",
            "queue",
            "params",
            "seed",
            "artefact",
            "prediction",
            "varied_from",
            "score",
            "criteria",
            "prediction_check",
            "metrics",
            "invariants",
            "figures",
            "figures_ready",
            "reused",
            "tries",
            "engine_version",
            "provenance",
            "report_url",
            "created_at",
            "started_at",
            "finished_at",
        ]

    def get_task(self, run: Run) -> str | None:
        return run.task_attempt.task.slug if run.task_attempt else None

    def get_task_attempt(self, run: Run) -> str | None:
        return str(run.task_attempt.public_id) if run.task_attempt else None

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, run: Run) -> dict[str, int | None]:
        return {"done": run.steps_done, "total": run.steps_total}

    @extend_schema_field(QueueSerializer(allow_null=True))
    def get_queue(self, run: Run) -> dict[str, Any] | None:
        if run.state != Run.State.QUEUED:
            return None
        return {
            "position": queue_position(run),
            "expected_wait_s": expected_wait_s(run),
            "problem": waits_in_vain(run) or None,
        }

    @extend_schema_field(dict[str, Any])
    def get_params(self, run: Run) -> dict[str, Any]:
        return run.disclosed_params()

    def get_varied_from(self, run: Run) -> str | None:
        return str(run.varied_from.public_id) if run.varied_from else None

    def get_seed(self, run: Run) -> int | None:
        return run.seed if run.is_disclosed else None

    @extend_schema_field(dict[str, Any] | None)  # type: ignore[arg-type]
    def get_metrics(self, run: Run) -> Any:
        return run.report["metrics"] if run.report else None

    @extend_schema_field(dict[str, Any] | None)  # type: ignore[arg-type]
    def get_invariants(self, run: Run) -> Any:
        return run.report["invariants"] if run.report else None

    @extend_schema_field(list[dict[str, Any]] | None)  # type: ignore[arg-type]
    def get_criteria(self, run: Run) -> Any:
        return run.sheet["criteria"] if run.sheet else None

    @extend_schema_field(list[dict[str, Any]] | None)  # type: ignore[arg-type]
    def get_prediction_check(self, run: Run) -> list[dict[str, Any]] | None:
        if run.report is None or run.task_attempt is None or run.prediction is None:
            return None
        truths = run.task_attempt.task.task_kind.prediction_metrics
        return compare_prediction(run.prediction, truths, run.report["metrics"])

    @extend_schema_field(FigureLinkSerializer(many=True))
    def get_figures(self, run: Run) -> Any:
        context = {**self.context, "run": run}
        return FigureLinkSerializer(run.figures.defer(*HEAVY), many=True, context=context).data

    def get_figures_ready(self, run: Run) -> bool:
        return run.figures.exists()

    def get_report_url(self, run: Run) -> str:
        return reverse("api-run-report", args=[run.public_id], request=self.context["request"])


# Columns of a figure that a link does not need.
HEAVY = ("spec", "table", "svg_light", "svg_dark", "png")


class RunRowSerializer(RunSerializer):
    """A run in a list: without its report."""

    class Meta(RunSerializer.Meta):
        fields = [
            "url",
            "public_id",
            "lab",
            "task",
            "task_attempt",
            "state",
            "reason",
            "score",
            "created_at",
            "finished_at",
        ]
