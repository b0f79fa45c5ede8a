"""Graded tasks over REST: prompt, criteria, and the JSON Schemas of what is handed in."""

from typing import Any

from django.db.models import F, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    extend_schema,
    extend_schema_field,
    extend_schema_view,
)
from rest_framework import generics, serializers
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from labs.api.examples import tasks as examples
from labs.api.examples.shared import schema_examples
from labs.api.renderers import SchemaRenderer
from labs.api.schemas import (
    TASK_SCHEMAS,
    artefact_schema,
    open_parameter_schema,
    prediction_schema,
    task_schemas,
)
from labs.leaderboard import board_facts
from labs.models import LabTask
from quiz.api.schema import example
from quiz.markdown import render


class CriterionSerializer(serializers.Serializer[Any]):
    """A criterion as a learner may know it before a run."""

    name = serializers.CharField()
    title = serializers.CharField()
    kind = serializers.CharField()
    points = serializers.DecimalField(max_digits=7, decimal_places=2)
    requires = serializers.ListField(child=serializers.CharField())


class BoardFactsSerializer(serializers.Serializer[Any]):
    """How those are ranked who enter a task's leaderboard."""

    url = serializers.CharField()
    metric = serializers.CharField(help_text="By the lab's schema `metrics`, measured on the final instance.")
    description = serializers.CharField()
    unit = serializers.CharField()
    more_is_better = serializers.BooleanField()


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
    leaderboard = serializers.SerializerMethodField(help_text="Null where the task has none.")

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
            "leaderboard",
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

    @extend_schema_field(BoardFactsSerializer(allow_null=True))
    def get_leaderboard(self, task: LabTask) -> dict[str, Any] | None:
        if not task.leaderboard:
            return None
        url = reverse("api-task-leaderboard", args=[task.slug], request=self.context["request"])
        return {"url": url, **board_facts(task)}


def published_tasks() -> QuerySet[LabTask]:
    return LabTask.objects.filter(published=True).select_related("activity", "lab")


class TaskList(generics.ListAPIView[LabTask]):
    serializer_class = LabTaskSerializer
    ordering = ("position", "pk")

    def get_queryset(self) -> QuerySet[LabTask]:
        lab = self.request.query_params.get("lab")
        tasks = published_tasks().annotate(position=F("activity__position"))
        return tasks.filter(lab__slug=lab) if lab else tasks

    @extend_schema(
        operation_id="list_tasks",
        tags=["tasks"],
        summary="All graded tasks, in the course's order",
        parameters=[OpenApiParameter("lab", str, description="Only tasks of this lab.")],
        examples=[example("A task", examples.TASK)],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


@extend_schema_view(
    get=extend_schema(
        operation_id="read_task",
        tags=["tasks"],
        summary="One task: prompt, open parameters, prediction, criteria",
        examples=[example("A task", examples.TASK), example("With a leaderboard", examples.RANKED_TASK)],
    )
)
class TaskDetail(generics.RetrieveAPIView[LabTask]):
    queryset = published_tasks()
    serializer_class = LabTaskSerializer
    lookup_field = "activity__slug"
    lookup_url_kwarg = "slug"


class TaskSchema(APIView):
    """A JSON Schema with units of what is handed in."""

    renderer_classes = [SchemaRenderer, JSONRenderer]

    @extend_schema(
        operation_id="read_task_schema",
        tags=["tasks"],
        summary="A task's JSON Schema: open parameters, prediction, or artefact where it takes one",
        parameters=[OpenApiParameter("name", str, OpenApiParameter.PATH, enum=TASK_SCHEMAS)],
        responses={200: OpenApiTypes.OBJECT},
        examples=schema_examples("A prediction", examples.PREDICTION_SCHEMA),
    )
    def get(self, request: Request, slug: str, name: str) -> Response:
        task = get_object_or_404(published_tasks(), activity__slug=slug)
        try:
            return Response(task_schemas(task.lab.job, task.task_kind)[name])
        except KeyError:
            raise NotFound(f"This task has no schema {name}.") from None
