"""A learner's own grades."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from quiz.api import examples
from quiz.api.courses import ActivityLinkSerializer
from quiz.api.schema import example, problems
from quiz.models import Grade, Learner


class GradeSerializer(serializers.ModelSerializer[Grade]):
    offering = serializers.SlugField(source="offering.slug")
    activity = ActivityLinkSerializer()
    points = serializers.DecimalField(max_digits=9, decimal_places=2)

    class Meta:
        model = Grade
        fields = ["offering", "activity", "score", "points", "revision", "manual", "updated_at"]
        read_only_fields = fields


class GradesView(generics.ListAPIView[Grade]):
    serializer_class = GradeSerializer
    queryset = Grade.objects.none()

    def get_queryset(self) -> QuerySet[Grade]:
        assert isinstance(self.request.user, Learner)
        return Grade.objects.filter(learner=self.request.user).select_related("offering", "activity")

    @extend_schema(
        operation_id="list_grades",
        summary="My grades, in all classes",
        tags=["grades"],
        responses={200: GradeSerializer(many=True), **problems(401)},
        examples=[example("A grade", examples.GRADE)],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)
