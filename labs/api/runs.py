"""Runs over REST: submitted, polled, cancelled. Views parse, call one service, and render."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)
from rest_framework import generics, serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from labs import services
from labs.api.attempts import own_attempts
from labs.api.disclosure import RunRowSerializer, RunSerializer
from labs.api.examples import runs as examples
from labs.api.polling import POLL_S
from labs.models import Lab, Run
from quiz.api.fields import WholeNumber
from quiz.api.idempotency import idempotent
from quiz.api.schema import example, problems, sends_location, sends_retry_after
from quiz.asking import learner_of


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
        return accepted(request, run)


def accepted(request: Request, run: Run) -> Response:
    """202 for a run that was just queued, and where to poll it."""
    shown = Run.objects.shown_to(learner_of(request)).get(pk=run.pk)
    data = RunSerializer(shown, context={"request": request}).data
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
        return Run.objects.shown_to(learner_of(self.request)).defer("report", "sheet", "provenance")


class RunDetail(generics.RetrieveAPIView[Run]):
    """One of the caller's runs; somebody else's does not exist."""

    serializer_class = RunSerializer
    lookup_field = "public_id"

    def get_queryset(self) -> QuerySet[Run]:
        if getattr(self, "swagger_fake_view", False):
            return Run.objects.none()
        return Run.objects.shown_to(learner_of(self.request))

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
        run = services.cancel_run(
            run=get_object_or_404(Run.objects.shown_to(learner_of(request)), public_id=public_id)
        )
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
        run = get_object_or_404(Run.objects.shown_to(learner_of(request)), public_id=public_id)
        if run.report is None:
            raise NotFound("The run has no report.")
        return Response({**run.report, "provenance": run.provenance})
