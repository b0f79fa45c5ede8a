"""Attempts at a task over REST. The drawn instance stays inside; `visible` is what is shown of it."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import (
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
)
from rest_framework import generics, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from labs import services
from labs.api.examples import tasks as examples
from labs.api.polling import POLL_S
from labs.api.tasks import published_tasks
from labs.exploration import explore_path
from labs.models import Run, TaskAttempt
from quiz.api.fields import TrueOrFalse, WholeNumber
from quiz.api.idempotency import idempotent
from quiz.api.schema import example, problems, sends_location, sends_retry_after
from quiz.asking import learner_of
from quiz.services import choose_offering


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
    explore_url = serializers.SerializerMethodField(
        help_text="The lab's page for a free run, its form filled with what is shown of the instance, and with all of "
        "it once a run is graded; null until the instance is drawn, and where there is none."
    )

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
            "explore_url",
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

    def get_explore_url(self, attempt: TaskAttempt) -> str | None:
        path = explore_path(attempt)
        return self.context["request"].build_absolute_uri(path) if path else None


class TaskAttempts(generics.ListAPIView[TaskAttempt]):
    """The caller's attempts at a task, and the door to the next."""

    serializer_class = TaskAttemptSerializer
    submits = True

    def get_queryset(self) -> QuerySet[TaskAttempt]:
        if getattr(self, "swagger_fake_view", False):
            return TaskAttempt.objects.none()
        task = get_object_or_404(published_tasks(), activity__slug=self.kwargs["slug"])
        return own_attempts(self.request).filter(task=task)

    @extend_schema(
        operation_id="list_task_attempts",
        tags=["tasks"],
        summary="My attempts at a task, newest first",
        examples=[example("An attempt", examples.ATTEMPT)],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="open_task_attempt",
        tags=["tasks"],
        summary="Open the next attempt, or go on with the open one",
        description="Draws an instance. Poll the attempt until it is `open`.",
        parameters=[sends_location(200, 201), sends_retry_after(200, 201)],
        request=OpenAttemptSerializer,
        responses={
            201: TaskAttemptSerializer,
            200: OpenApiResponse(TaskAttemptSerializer, "The attempt that is open already."),
            **problems(400, 401, 403, 404, 409, 429),
        },
        examples=examples.OPEN_ATTEMPT,
    )
    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        task = get_object_or_404(published_tasks(), activity__slug=slug)
        body = OpenAttemptSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        offering = choose_offering(
            learner=learner_of(request), course=task.activity.course, slug=body.validated_data.get("offering")
        )
        attempt, created = services.open_attempt(
            learner=learner_of(request),
            task=task,
            offering=offering,
            practice=body.validated_data["practice"],
            seed=body.validated_data.get("seed"),
        )
        data = TaskAttemptSerializer(attempt, context={"request": request}).data
        headers = {"Location": str(data["url"]), "Retry-After": POLL_S}
        made = status.HTTP_201_CREATED if created else status.HTTP_200_OK
        return Response(data, status=made, headers=headers)


def own_attempts(request: Request) -> QuerySet[TaskAttempt]:
    rows = TaskAttempt.objects.filter(learner=learner_of(request))
    return rows.select_related("task__activity", "task__lab", "offering", "learner")


class TaskAttemptDetail(generics.RetrieveAPIView[TaskAttempt]):
    """One of the caller's attempts; somebody else's does not exist."""

    serializer_class = TaskAttemptSerializer
    lookup_field = "public_id"

    def get_queryset(self) -> QuerySet[TaskAttempt]:
        if getattr(self, "swagger_fake_view", False):
            return TaskAttempt.objects.none()
        return own_attempts(self.request)

    @extend_schema(
        operation_id="read_task_attempt",
        tags=["tasks"],
        summary="One attempt: its state and what is shown of its instance",
        parameters=[sends_retry_after(200)],
        examples=[example("Preparing", examples.PREPARING), example("Open", examples.ATTEMPT)],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response = super().get(request, *args, **kwargs)
        if response.data["state"] == TaskAttempt.State.PREPARING:
            response["Retry-After"] = POLL_S
        return response
