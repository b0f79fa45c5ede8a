"""Labs, tasks, attempts, runs and figures over REST. Views parse, call one service, and render."""

import csv
import io
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import generics, status
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from labs import examples, services
from labs.models import Figure, Lab, LabTask, Run, TaskAttempt
from labs.renderers import CsvRenderer, PngRenderer, SchemaRenderer, SvgRenderer, VegaLiteRenderer
from labs.schemas import lab_schema
from labs.serializers import (
    HEAVY,
    FigureLinkSerializer,
    LabSerializer,
    LabTaskSerializer,
    OpenAttemptSerializer,
    RunRowSerializer,
    RunSerializer,
    SubmitRunSerializer,
    TaskAttemptSerializer,
)
from quiz.api.idempotency import idempotent
from quiz.api.schema import problems
from quiz.models import Learner
from quiz.services import choose_offering

POLL_S = "1"


@extend_schema(tags=["labs"], summary="All labs")
class LabList(generics.ListAPIView[Lab]):
    queryset = Lab.objects.order_by("pk")
    serializer_class = LabSerializer


@extend_schema(tags=["labs"], summary="One lab")
class LabDetail(generics.RetrieveAPIView[Lab]):
    queryset = Lab.objects.all()
    serializer_class = LabSerializer
    lookup_field = "slug"


class LabSchema(APIView):
    """A JSON Schema with units: `parameters`, `metrics` or `report`."""

    renderer_classes = [SchemaRenderer, JSONRenderer]

    @extend_schema(tags=["labs"], summary="A lab's JSON Schema", responses={200: OpenApiTypes.OBJECT})
    def get(self, request: Request, slug: str, name: str) -> Response:
        lab = get_object_or_404(Lab, slug=slug)
        try:
            return Response(lab_schema(lab.job, name))
        except KeyError:
            raise NotFound(f"There is no schema {name}.") from None


def published_tasks() -> QuerySet[LabTask]:
    return (
        LabTask.objects.filter(published=True)
        .select_related("activity", "lab")
        .order_by("activity__position")
    )


@extend_schema(tags=["tasks"], summary="All graded tasks")
class TaskList(generics.ListAPIView[LabTask]):
    serializer_class = LabTaskSerializer

    def get_queryset(self) -> QuerySet[LabTask]:
        lab = self.request.query_params.get("lab")
        return published_tasks().filter(lab__slug=lab) if lab else published_tasks()

    @extend_schema(parameters=[OpenApiParameter("lab", str, description="Only tasks of this lab.")])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


@extend_schema(tags=["tasks"], summary="One task: prompt, open parameters, prediction, criteria")
class TaskDetail(generics.RetrieveAPIView[LabTask]):
    queryset = published_tasks()
    serializer_class = LabTaskSerializer
    lookup_field = "activity__slug"
    lookup_url_kwarg = "slug"


class TaskAttempts(generics.ListAPIView[TaskAttempt]):
    """The caller's attempts at a task, and the door to the next."""

    serializer_class = TaskAttemptSerializer
    submits = True

    def get_queryset(self) -> QuerySet[TaskAttempt]:
        if getattr(self, "swagger_fake_view", False):
            return TaskAttempt.objects.none()
        task = get_object_or_404(published_tasks(), activity__slug=self.kwargs["slug"])
        return own_attempts(self.request).filter(task=task)

    @extend_schema(tags=["tasks"], summary="My attempts at a task")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        tags=["tasks"],
        summary="Open the next attempt, or go on with the open one",
        description="Draws an instance. Poll the attempt until it is `open`.",
        request=OpenAttemptSerializer,
        responses={
            201: TaskAttemptSerializer,
            200: TaskAttemptSerializer,
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
        headers = {"Location": data["url"], "Retry-After": POLL_S}
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

    @extend_schema(tags=["tasks"], summary="One attempt: its state and what is shown of its instance")
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
        tags=["runs"],
        summary="Submit a run",
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
        headers = {"Location": data["url"], "Retry-After": POLL_S}
        return Response(data, status=status.HTTP_202_ACCEPTED, headers=headers)


@extend_schema(tags=["runs"], summary="My runs, newest first")
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
        tags=["runs"],
        summary="One run: state, progress and result",
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
        tags=["runs"],
        summary="Cancel a queued or running run",
        description="Kills the computation. The attempt stays open.",
        request=None,
        responses={200: RunSerializer, **problems(401, 404, 409)},
    )
    def post(self, request: Request, public_id: str) -> Response:
        run = services.cancel_run(run=get_object_or_404(own_runs(request), public_id=public_id))
        return Response(RunSerializer(run, context={"request": request}).data)


class RunReport(APIView):
    @extend_schema(
        tags=["runs"],
        summary="The whole report of a graded run",
        description="By the lab's schema `report`; provenance included.",
        responses={200: OpenApiTypes.OBJECT, **problems(401, 404)},
    )
    def get(self, request: Request, public_id: str) -> Response:
        run = get_object_or_404(own_runs(request), public_id=public_id)
        if run.report is None:
            raise NotFound("The run has no report.")
        return Response({**run.report, "provenance": run.provenance})


class RunFigures(generics.ListAPIView[Figure]):
    serializer_class = FigureLinkSerializer
    pagination_class = None

    def get_queryset(self) -> QuerySet[Figure]:
        if getattr(self, "swagger_fake_view", False):
            return Figure.objects.none()
        run = get_object_or_404(own_runs(self.request), public_id=self.kwargs["public_id"])
        return run.figures.defer(*HEAVY).select_related("run")

    @extend_schema(tags=["figures"], summary="The figures of a run")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class RunFigure(APIView):
    """One figure, by content negotiation or `?format=`: spec, SVG, PNG, or its data as a table."""

    renderer_classes = [VegaLiteRenderer, JSONRenderer, SvgRenderer, PngRenderer, CsvRenderer]

    @extend_schema(
        tags=["figures"],
        summary="One figure as Vega-Lite, SVG, PNG or CSV",
        parameters=[
            OpenApiParameter(
                "format", str, enum=["json", "svg", "png", "csv"], description="Instead of Accept."
            ),
            OpenApiParameter("theme", str, enum=["light", "dark"], description="Of the SVG; default light."),
        ],
        responses={
            (200, "application/vnd.vegalite+json"): OpenApiTypes.OBJECT,
            (200, "image/svg+xml"): OpenApiTypes.STR,
            (200, "image/png"): OpenApiTypes.BINARY,
            (200, "text/csv"): OpenApiTypes.STR,
            **problems(401, 404),
        },
    )
    def get(self, request: Request, public_id: str, name: str) -> Response:
        run = get_object_or_404(own_runs(request), public_id=public_id)
        figure = get_object_or_404(run.figures.all(), name=name)
        kind = request.accepted_renderer.format
        if kind == "svg":
            dark = request.query_params.get("theme") == "dark"
            content: Any = figure.svg_dark if dark else figure.svg_light
        elif kind == "png":
            content = bytes(figure.png)
        elif kind == "csv":
            content = as_csv(figure.table)
        else:
            content = figure.spec
        return Response(content, headers={"Cache-Control": "private, max-age=86400", "Vary": "Accept"})


def as_csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
