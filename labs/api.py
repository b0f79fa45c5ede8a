"""Labs, tasks, attempts and runs over REST. Views parse, call one service, and render."""

from typing import Any

from django.db.models import F, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import generics, status
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from labs import examples, services
from labs.models import Lab, LabTask, Run, TaskAttempt
from labs.renderers import SchemaRenderer
from labs.schemas import LAB_SCHEMAS, TASK_SCHEMAS, lab_schema, task_schemas
from labs.serializers import (
    LabSerializer,
    LabTaskSerializer,
    OpenAttemptSerializer,
    RunRowSerializer,
    RunSerializer,
    SubmitRunSerializer,
    TaskAttemptSerializer,
)
from quiz.api.idempotency import idempotent
from quiz.api.schema import example, problems, sends_location, sends_retry_after
from quiz.models import Learner
from quiz.services import choose_offering

POLL_S = "1"


@extend_schema_view(
    get=extend_schema(
        operation_id="list_labs",
        tags=["labs"],
        summary="All labs",
        examples=[example("A lab", examples.LAB)],
    )
)
class LabList(generics.ListAPIView[Lab]):
    queryset = Lab.objects.all()
    serializer_class = LabSerializer
    ordering = ("pk",)


@extend_schema_view(
    get=extend_schema(
        operation_id="read_lab",
        tags=["labs"],
        summary="One lab",
        examples=[example("A lab", examples.LAB)],
    )
)
class LabDetail(generics.RetrieveAPIView[Lab]):
    queryset = Lab.objects.all()
    serializer_class = LabSerializer
    lookup_field = "slug"


class LabSchema(APIView):
    """A JSON Schema with units: `parameters`, `metrics` or `report`."""

    renderer_classes = [SchemaRenderer, JSONRenderer]

    @extend_schema(
        operation_id="read_lab_schema",
        tags=["labs"],
        summary="A lab's JSON Schema: parameters, metrics or report",
        parameters=[OpenApiParameter("name", str, OpenApiParameter.PATH, enum=LAB_SCHEMAS)],
        responses={200: OpenApiTypes.OBJECT},
        examples=examples.schema_examples("Parameters, cut short", examples.PARAMETER_SCHEMA),
    )
    def get(self, request: Request, slug: str, name: str) -> Response:
        lab = get_object_or_404(Lab, slug=slug)
        try:
            return Response(lab_schema(lab.job, name))
        except KeyError:
            raise NotFound(f"There is no schema {name}.") from None


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
        examples=[example("A task", examples.TASK)],
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
        examples=examples.schema_examples("A prediction", examples.PREDICTION_SCHEMA),
    )
    def get(self, request: Request, slug: str, name: str) -> Response:
        task = get_object_or_404(published_tasks(), activity__slug=slug)
        try:
            return Response(task_schemas(task.lab.job, task.task_kind)[name])
        except KeyError:
            raise NotFound(f"This task has no schema {name}.") from None


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


def learner_of(request: Request) -> Learner:
    """Who asks; the API answers nobody else."""
    assert isinstance(request.user, Learner)
    return request.user


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


def own_runs(request: Request) -> QuerySet[Run]:
    return Run.objects.for_learner(learner_of(request)).select_related(
        "lab", "task_attempt__task__activity", "task_attempt__task__lab", "varied_from"
    )


class LabRuns(APIView):
    """Where runs of a lab are submitted."""

    submits = True

    @extend_schema(
        operation_id="submit_run",
        tags=["runs"],
        summary="Submit a run",
        parameters=[sends_location(202), sends_retry_after(202)],
        description="With a task attempt it is graded; without one it is free exploration. Poll `Location`.",
        request=SubmitRunSerializer,
        responses={
            202: OpenApiResponse(RunSerializer, description="Queued; poll the URL in `Location`."),
            **problems(400, 401, 403, 404, 409, 429),
        },
        examples=examples.SUBMIT_RUN,
    )
    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        lab = get_object_or_404(Lab, slug=slug)
        body = SubmitRunSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        values = body.validated_data
        attempt = None
        if values.get("task_attempt") is not None:
            attempt = get_object_or_404(own_attempts(request), public_id=values["task_attempt"])
        run = services.submit_run(
            learner=learner_of(request),
            lab=lab,
            task_attempt=attempt,
            params=values["params"],
            prediction=values.get("prediction"),
            artefact=values.get("artefact"),
            seed=values.get("seed"),
        )
        run = own_runs(request).get(pk=run.pk)
        data = RunSerializer(run, context={"request": request}).data
        headers = {"Location": str(data["url"]), "Retry-After": POLL_S}
        return Response(data, status=status.HTTP_202_ACCEPTED, headers=headers)


@extend_schema_view(
    get=extend_schema(
        operation_id="list_runs",
        tags=["runs"],
        summary="My runs, newest first",
        examples=[example("A graded run", examples.RUN_ROW)],
    )
)
class RunList(generics.ListAPIView[Run]):
    serializer_class = RunRowSerializer

    def get_queryset(self) -> QuerySet[Run]:
        if getattr(self, "swagger_fake_view", False):
            return Run.objects.none()
        return own_runs(self.request).defer("report", "sheet", "provenance")


class RunDetail(generics.RetrieveAPIView[Run]):
    """One of the caller's runs; somebody else's does not exist."""

    serializer_class = RunSerializer
    lookup_field = "public_id"

    def get_queryset(self) -> QuerySet[Run]:
        if getattr(self, "swagger_fake_view", False):
            return Run.objects.none()
        return own_runs(self.request)

    @extend_schema(
        operation_id="read_run",
        tags=["runs"],
        summary="One run: state, progress and result",
        parameters=[sends_retry_after(200)],
        description="Poll with If-None-Match: an unchanged run answers 304.",
        examples=examples.RUN,
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        response = super().get(request, *args, **kwargs)
        if response.data["state"] in Run.ACTIVE:
            response["Retry-After"] = POLL_S
        return response


class RunCancellation(APIView):
    @extend_schema(
        operation_id="cancel_run",
        tags=["runs"],
        summary="Cancel a queued or running run",
        description="Kills the computation. The attempt stays open.",
        request=None,
        responses={200: RunSerializer, **problems(401, 404, 409)},
        examples=[example("Cancelled", examples.CANCELLED_RUN)],
    )
    def post(self, request: Request, public_id: str) -> Response:
        run = services.cancel_run(run=get_object_or_404(own_runs(request), public_id=public_id))
        return Response(RunSerializer(run, context={"request": request}).data)


class RunReport(APIView):
    @extend_schema(
        operation_id="read_report",
        tags=["runs"],
        summary="The whole report of a graded run",
        description="By the lab's schema `report`; provenance included.",
        responses={200: OpenApiTypes.OBJECT, **problems(401, 404)},
        examples=[example("Cut short", examples.REPORT)],
    )
    def get(self, request: Request, public_id: str) -> Response:
        run = get_object_or_404(own_runs(request), public_id=public_id)
        if run.report is None:
            raise NotFound("The run has no report.")
        return Response({**run.report, "provenance": run.provenance})
