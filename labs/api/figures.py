"""Figures of a run over REST, drawn by a worker before anybody asks."""

import csv
import io
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from labs.api.disclosure import HEAVY, FigureLinkSerializer
from labs.api.examples import runs as examples
from labs.api.renderers import CsvRenderer, PngRenderer, SvgRenderer, VegaLiteRenderer
from labs.models import Figure, Run
from quiz.api.schema import example, problems
from quiz.asking import learner_of


class RunFigures(generics.ListAPIView[Figure]):
    serializer_class = FigureLinkSerializer
    ordering = ("position",)

    def get_queryset(self) -> QuerySet[Figure]:
        if getattr(self, "swagger_fake_view", False):
            return Figure.objects.none()
        run = get_object_or_404(
            Run.objects.shown_to(learner_of(self.request)), public_id=self.kwargs["public_id"]
        )
        return run.figures.defer(*HEAVY).select_related("run")

    @extend_schema(
        operation_id="list_figures",
        tags=["figures"],
        summary="The figures of a run",
        examples=[example("A figure", examples.FIGURE)],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class RunFigure(APIView):
    """One figure, by content negotiation or `?format=`: spec, SVG, PNG, or its data as a table."""

    renderer_classes = [VegaLiteRenderer, JSONRenderer, SvgRenderer, PngRenderer, CsvRenderer]

    @extend_schema(
        operation_id="read_figure",
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
        examples=examples.FIGURE_CONTENT,
    )
    def get(self, request: Request, public_id: str, name: str) -> Response:
        run = get_object_or_404(Run.objects.shown_to(learner_of(request)), public_id=public_id)
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
