"""Labs over REST, and the JSON Schemas of what they take."""

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import generics, serializers
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse
from rest_framework.views import APIView

from labs.api.examples import labs as examples
from labs.api.examples.shared import schema_examples
from labs.api.renderers import SchemaRenderer
from labs.api.schemas import (
    LAB_SCHEMAS,
    lab_schema,
)
from labs.models import Lab
from quiz.api.schema import example
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
        examples=schema_examples("Parameters, cut short", examples.PARAMETER_SCHEMA),
    )
    def get(self, request: Request, slug: str, name: str) -> Response:
        lab = get_object_or_404(Lab, slug=slug)
        try:
            return Response(lab_schema(lab.job, name))
        except KeyError:
            raise NotFound(f"There is no schema {name}.") from None
