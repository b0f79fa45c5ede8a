"""What leaves over REST. Instances, seeds and truths stay inside until a run of the attempt is graded."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.reverse import reverse

from labs import services
from labs.models import Figure, Lab, LabTask, Run, TaskAttempt
from labs.rubric import compare_prediction
from labs.scheduling import expected_wait_s, queue_position, waits_in_vain
from labs.schemas import LAB_SCHEMAS, artefact_schema, open_parameter_schema, prediction_schema, task_schemas
from quiz.api.fields import TrueOrFalse, WholeNumber
from quiz.markdown import render
from simworkers import catalog


class LabSerializer(serializers.ModelSerializer[Lab]):
    url = serializers.HyperlinkedIdentityField(view_name="api-lab", lookup_field="slug")
    runs_url = serializers.HyperlinkedIdentityField(view_name="api-lab-runs", lookup_field="slug")
    engine_version = serializers.SerializerMethodField(help_text="Hash of the lab's sources and data.")
    schemas = serializers.SerializerMethodField(help_text="URLs of the JSON Schemas, by name.")
    tasks = serializers.SerializerMethodField(help_text="URLs of the graded tasks.")

    sweep_url = serializers.SerializerMethodField(help_text="The explore sweep; null where the lab has none.")

    class Meta:
        model = Lab
        fields = [
            "url",
            "slug",
            "title",
            "summary",
            "engine_version",
            "schemas",
            "tasks",
            "runs_url",
            "sweep_url",
        ]

    def get_engine_version(self, lab: Lab) -> str:
        return catalog.engine_version(lab.slug)

    def get_sweep_url(self, lab: Lab) -> str | None:
        if lab.job.sweep is None:
            return None
        return reverse("api-lab-sweep", args=[lab.slug], request=self.context["request"])

    def get_schemas(self, lab: Lab) -> dict[str, str]:
        request = self.context["request"]
        return {
            name: reverse("api-lab-schema", args=[lab.slug, name], request=request) for name in LAB_SCHEMAS
        }

    def get_tasks(self, lab: Lab) -> list[str]:
        request = self.context["request"]
        tasks = lab.tasks.filter(published=True).select_related("activity")
        return [reverse("api-task", args=[task.slug], request=request) for task in tasks]


class CriterionSerializer(serializers.Serializer[Any]):
    """A criterion as a learner may know it before a run."""

    name = serializers.CharField()
    title = serializers.CharField()
    kind = serializers.CharField()
    points = serializers.DecimalField(max_digits=7, decimal_places=2)
    requires = serializers.ListField(child=serializers.CharField())


class LabTaskSerializer(serializers.ModelSerializer[LabTask]):
    url = serializers.SerializerMethodField()
    slug = serializers.CharField(source="activity.slug")
    title = serializers.CharField(source="activity.title")
    points = serializers.DecimalField(source="activity.points", max_digits=7, decimal_places=2)
    lab = serializers.CharField(source="lab.slug")
    prompt_html = serializers.SerializerMethodField()
    open_parameters = serializers.SerializerMethodField(help_text="JSON Schema of what the learner may set.")
    prediction = serializers.SerializerMethodField(help_text="JSON Schema of the prediction.")
    artefact = serializers.SerializerMethodField(
        help_text="JSON Schema of what is handed in beside parameters; null where nothing is."
    )
    schemas = serializers.SerializerMethodField(help_text="URLs of these JSON Schemas, by name.")
    criteria = serializers.SerializerMethodField(
        help_text="How it is judged; null while the stored rubric cannot be read, which is our fault."
    )
    attempts_url = serializers.SerializerMethodField()

    class Meta:
        model = LabTask
        fields = [
            "url",
            "slug",
            "title",
            "points",
            "lab",
            "prompt_html",
            "open_parameters",
            "prediction",
            "artefact",
            "schemas",
            "criteria",
            "attempts_allowed",
            "attempts_url",
        ]

    def get_url(self, task: LabTask) -> str:
        return reverse("api-task", args=[task.slug], request=self.context["request"])

    def get_attempts_url(self, task: LabTask) -> str:
        return reverse("api-task-attempts", args=[task.slug], request=self.context["request"])

    def get_prompt_html(self, task: LabTask) -> str:
        return render(task.prompt)

    @extend_schema_field(dict[str, Any])
    def get_open_parameters(self, task: LabTask) -> dict[str, Any]:
        return open_parameter_schema(task.lab.job, task.task_kind)

    @extend_schema_field(dict[str, Any])
    def get_prediction(self, task: LabTask) -> dict[str, Any]:
        return prediction_schema(task.task_kind)

    @extend_schema_field(dict[str, Any] | None)  # type: ignore[arg-type]
    def get_artefact(self, task: LabTask) -> dict[str, Any] | None:
        return artefact_schema(task.task_kind)

    def get_schemas(self, task: LabTask) -> dict[str, str]:
        request = self.context["request"]
        return {
            name: reverse("api-task-schema", args=[task.slug, name], request=request)
            for name in task_schemas(task.lab.job, task.task_kind)
        }

    @extend_schema_field(CriterionSerializer(many=True, allow_null=True))
    def get_criteria(self, task: LabTask) -> Any:
        rubric = task.readable_rubric()
        return CriterionSerializer(rubric.criteria, many=True).data if rubric else None


class OpenAttemptSerializer(serializers.Serializer[Any]):
    """Body of an opening."""

    offering = serializers.SlugField(required=False, help_text="The class; needed where you are in several.")
    practice = TrueOrFalse(default=False, help_text="A public seed; counts nothing.")
    seed = WholeNumber(
        required=False, min_value=0, max_value=2**63 - 1, help_text="Practice only: which instance."
    )


class TaskAttemptSerializer(serializers.ModelSerializer[TaskAttempt]):
    url = serializers.HyperlinkedIdentityField(view_name="api-task-attempt", lookup_field="public_id")
    task = serializers.CharField(source="task.slug")
    offering = serializers.CharField(source="offering.slug")
    seed = serializers.SerializerMethodField(help_text="The public seed of a practice attempt; else null.")
    visible = serializers.JSONField(help_text="What is shown of the drawn instance; null while preparing.")
    defaults = serializers.SerializerMethodField(help_text="Values that the open parameters start from.")
    attempts_left = serializers.SerializerMethodField()
    runs = serializers.SerializerMethodField(help_text="URLs of this attempt's runs.")
    runs_url = serializers.SerializerMethodField(help_text="Where to submit a run.")

    class Meta:
        model = TaskAttempt
        fields = [
            "url",
            "public_id",
            "task",
            "offering",
            "number",
            "practice",
            "seed",
            "state",
            "visible",
            "defaults",
            "prediction",
            "attempts_left",
            "error",
            "created_at",
            "opened_at",
            "runs",
            "runs_url",
        ]

    def get_seed(self, attempt: TaskAttempt) -> int | None:
        return attempt.draw_seed if attempt.practice else None

    @extend_schema_field(dict[str, Any] | None)  # type: ignore[arg-type]
    def get_defaults(self, attempt: TaskAttempt) -> dict[str, Any] | None:
        if attempt.instance is None:
            return None
        drawn = attempt.instance["params"]
        return {name: drawn[name] for name in attempt.task.task_kind.open_parameters if name in drawn}

    def get_attempts_left(self, attempt: TaskAttempt) -> int:
        return services.attempts_left(learner=attempt.learner, task=attempt.task, offering=attempt.offering)

    def get_runs(self, attempt: TaskAttempt) -> list[str]:
        request = self.context["request"]
        rows: QuerySet[Run] = attempt.runs.order_by("pk")
        return [reverse("api-run", args=[run.public_id], request=request) for run in rows]

    def get_runs_url(self, attempt: TaskAttempt) -> str:
        return reverse("api-lab-runs", args=[attempt.task.lab.slug], request=self.context["request"])


class SubmitRunSerializer(serializers.Serializer[Any]):
    """Body of a submission. Which parameters there are says the lab's schema."""

    task_attempt = serializers.UUIDField(required=False, allow_null=True, help_text="None: free exploration.")
    params = serializers.JSONField(default=dict, help_text="By the schema `parameters` of the lab.")
    prediction = serializers.JSONField(required=False, allow_null=True, help_text="By the task's schema.")
    artefact = serializers.JSONField(
        required=False, allow_null=True, help_text="Where the task asks for one; by the task's schema."
    )
    seed = WholeNumber(
        required=False, min_value=0, max_value=2**63 - 1, help_text="Free exploration only; default 0."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = set(self.initial_data) - set(self.fields)
        if unknown:
            raise serializers.ValidationError(dict.fromkeys(sorted(unknown), "is not a field here"))
        return attrs


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
    metrics = serializers.SerializerMethodField(help_text="By the lab's schema `metrics`; null until graded.")
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
        if run.task_attempt is None or run.report is not None:
            return dict(run.params)
        # A run from before an upgrade lacks what the task has opened since.
        opened = run.task_attempt.task.task_kind.open_parameters
        return {name: run.params[name] for name in opened if name in run.params}

    def get_varied_from(self, run: Run) -> str | None:
        return str(run.varied_from.public_id) if run.varied_from else None

    def get_seed(self, run: Run) -> int | None:
        return run.seed if run.task_attempt is None or run.report is not None else None

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
