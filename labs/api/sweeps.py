"""The explore sweep of a lab over REST: asked for, it is computed once, and then served to everybody."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from labs.api.examples import labs as examples
from labs.models import Lab, Sweep
from labs.sweeps import ask_for_sweep
from quiz.api.schema import example, problems, sends_retry_after

RETRY_AFTER_S = "2"


class AxisSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="A parameter of the lab.")
    unit = serializers.CharField(allow_blank=True)
    values = serializers.ListField(child=serializers.JSONField())


class SweepMetricSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="A metric of the lab.")
    unit = serializers.CharField()
    description = serializers.CharField()
    values = serializers.ListField(
        child=serializers.JSONField(),
        help_text="Lists in lists, one depth an axis, in the order of the axes.",
    )


class SweepDataSerializer(serializers.Serializer[Any]):
    lab = serializers.CharField()
    engine_version = serializers.CharField()
    seed = serializers.IntegerField()
    params = serializers.DictField(help_text="The parameters that all points share.")
    axes = AxisSerializer(many=True)
    lines = serializers.CharField(help_text="The axis whose values charts compare, a line each.")
    metrics = SweepMetricSerializer(many=True)


class SweepSerializer(serializers.ModelSerializer[Sweep]):
    data = SweepDataSerializer(  # type: ignore[assignment]  # the field shadows DRF's own property, as its name should
        allow_null=True, help_text="Null until a worker has computed it."
    )

    class Meta:
        model = Sweep
        fields = ["state", "engine_version", "tries", "reason", "created_at", "computed_at", "data"]


class LabSweep(APIView):
    """What the parameters do to each other: a grid of runs as data, for charts with sliders."""

    @extend_schema(
        operation_id="read_sweep",
        tags=["labs"],
        summary="A lab's explore sweep",
        description="The first to ask has it computed; poll until it is `ready`. It stays for as long as the "
        "lab's engine version.",
        parameters=[sends_retry_after(202)],
        responses={
            200: OpenApiResponse(
                SweepSerializer, description="Computed; unchanged until the engine changes."
            ),
            202: OpenApiResponse(SweepSerializer, description="A worker computes it; come back."),
            **problems(401, 404, 503),
        },
        examples=[
            example("Computed", examples.SWEEP),
            example("Being computed", examples.SWEEP_WAITING, status=202),
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        lab = get_object_or_404(Lab, slug=slug)
        if lab.job.sweep is None:
            raise NotFound("This lab has no sweep.")
        sweep = ask_for_sweep(lab=lab)
        body = SweepSerializer(sweep).data
        if sweep.state == Sweep.State.READY:
            return Response(body)
        return Response(body, status=status.HTTP_202_ACCEPTED, headers={"Retry-After": RETRY_AFTER_S})
