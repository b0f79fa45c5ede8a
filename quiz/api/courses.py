"""Classes, what they read, and what they are graded on."""

from typing import Any

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from quiz import services
from quiz.api import examples
from quiz.api.idempotency import idempotent
from quiz.api.schema import MarkdownField, example, problems
from quiz.models import Activity, Course, Enrollment, Learner, Offering, Section


class ActivityLinkSerializer(serializers.ModelSerializer[Activity]):
    """A quiz stands at `quizzes/{slug}/`, a lab task at `tasks/{slug}/`."""

    class Meta:
        model = Activity
        fields = ["slug", "kind", "title", "points"]
        read_only_fields = fields


class SectionLinkSerializer(serializers.ModelSerializer[Section]):
    class Meta:
        model = Section
        fields = ["position", "slug", "title"]
        read_only_fields = fields


class CourseSerializer(serializers.ModelSerializer[Course]):
    summary_html = MarkdownField(source="summary")

    class Meta:
        model = Course
        fields = ["slug", "title", "summary", "summary_html", "level", "minutes"]
        read_only_fields = fields


class CourseContentsSerializer(CourseSerializer):
    sections = SectionLinkSerializer(many=True)

    class Meta(CourseSerializer.Meta):
        fields = [*CourseSerializer.Meta.fields, "sections"]
        read_only_fields = fields


class OfferingSerializer(serializers.ModelSerializer[Offering]):
    course = CourseSerializer()
    is_open = serializers.BooleanField(help_text="By the server's clock.")
    role = serializers.SerializerMethodField(help_text="Yours in this class; null: not enrolled.")

    class Meta:
        model = Offering
        fields = ["slug", "title", "course", "self_enrolment", "is_open", "opens_at", "closes_at", "role"]
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(choices=Enrollment.Role.choices, allow_null=True))
    def get_role(self, offering: Offering) -> str | None:
        # Filled by offerings_with_role() with the reader's own row only.
        mine: list[Enrollment] = getattr(offering, "mine", [])
        return mine[0].role if mine else None


class MarkSerializer(serializers.Serializer[Any]):
    score = serializers.DecimalField(max_digits=5, decimal_places=4, help_text="0 to 1.")
    points = serializers.DecimalField(max_digits=9, decimal_places=2)
    revision = serializers.IntegerField(help_text="Grows with every change.")
    manual = serializers.BooleanField(help_text="Set by staff.")
    updated_at = serializers.DateTimeField()


class GradedActivitySerializer(serializers.Serializer[Any]):
    slug = serializers.SlugField(source="activity.slug")
    kind = serializers.ChoiceField(choices=Activity.Kind.choices, source="activity.kind")
    title = serializers.CharField(source="activity.title")
    points = serializers.DecimalField(max_digits=7, decimal_places=2, source="activity.points")
    position = serializers.IntegerField(source="activity.position")
    grade = MarkSerializer(allow_null=True, help_text="Yours; null: none yet. Zero is a grade.")


class CourseProgressSerializer(serializers.Serializer[Any]):
    done = serializers.IntegerField()
    total = serializers.IntegerField()
    text = serializers.CharField()
    points = serializers.DecimalField(max_digits=9, decimal_places=2)
    points_possible = serializers.DecimalField(max_digits=9, decimal_places=2)


class OfferingDetailSerializer(OfferingSerializer):
    course = CourseContentsSerializer()
    activities = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField()

    class Meta(OfferingSerializer.Meta):
        fields = [*OfferingSerializer.Meta.fields, "activities", "progress"]
        read_only_fields = fields

    @extend_schema_field(GradedActivitySerializer(many=True))
    def get_activities(self, offering: Offering) -> Any:
        return GradedActivitySerializer(self.context["progress"].rows, many=True).data

    @extend_schema_field(CourseProgressSerializer)
    def get_progress(self, offering: Offering) -> Any:
        return CourseProgressSerializer(self.context["progress"]).data


class EnrollmentSerializer(serializers.ModelSerializer[Enrollment]):
    offering = serializers.SlugField(source="offering.slug")

    class Meta:
        model = Enrollment
        fields = ["offering", "role", "created_at"]
        read_only_fields = fields


class SectionSerializer(serializers.ModelSerializer[Section]):
    course = serializers.SlugField(source="course.slug")
    body_html = MarkdownField(source="body")

    class Meta:
        model = Section
        fields = ["course", "position", "slug", "title", "body", "body_html"]
        read_only_fields = fields


def offerings_with_role(learner: Learner) -> QuerySet[Offering]:
    mine = Prefetch("enrollments", Enrollment.objects.filter(learner=learner), to_attr="mine")
    return services.visible_offerings(learner=learner).select_related("course").prefetch_related(mine)


class OfferingsView(generics.ListAPIView[Offering]):
    serializer_class = OfferingSerializer
    queryset = Offering.objects.none()

    def get_queryset(self) -> QuerySet[Offering]:
        assert isinstance(self.request.user, Learner)
        return offerings_with_role(self.request.user)

    @extend_schema(
        operation_id="list_offerings",
        summary="The classes I am in or may join",
        tags=["course"],
        responses={200: OfferingSerializer(many=True), **problems(401)},
        examples=[example("An open class", examples.OFFERING)],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class OfferingView(APIView):
    @extend_schema(
        operation_id="read_offering",
        summary="A class: contents, activities, my grades and progress",
        tags=["course"],
        responses={200: OfferingDetailSerializer, **problems(401, 404)},
        examples=[example("A class under way", examples.OFFERING_DETAIL)],
    )
    def get(self, request: Request, slug: str) -> Response:
        assert isinstance(request.user, Learner)
        offering = get_object_or_404(offerings_with_role(request.user), slug=slug)
        progress = services.progress_of(learner=request.user, offering=offering)
        return Response(OfferingDetailSerializer(offering, context={"progress": progress}).data)


class EnrollmentsView(APIView):
    submits = True

    @extend_schema(
        operation_id="enroll",
        summary="Join a class that lets people in by themselves",
        tags=["course"],
        request=None,
        responses={
            201: EnrollmentSerializer,
            200: OpenApiResponse(EnrollmentSerializer, "You were in it already; nothing changed."),
            **problems(401, 403, 404),
        },
        examples=[
            example("Joined", examples.ENROLLMENT, status=201),
            example("Joined before", examples.ENROLLMENT),
        ],
    )
    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        assert isinstance(request.user, Learner)
        offering = get_object_or_404(services.visible_offerings(learner=request.user), slug=slug)
        enrollment, created = services.enroll_oneself(learner=request.user, offering=offering)
        return Response(EnrollmentSerializer(enrollment).data, status=201 if created else 200)


class SectionView(APIView):
    @extend_schema(
        operation_id="read_section",
        summary="A section of the track's text",
        tags=["course"],
        responses={200: SectionSerializer, **problems(401, 404)},
        examples=[example("A section", examples.SECTION)],
    )
    def get(self, request: Request, slug: str, section: str) -> Response:
        assert isinstance(request.user, Learner)
        courses = services.visible_offerings(learner=request.user).values("course")
        sections = Section.objects.filter(course__in=courses).select_related("course")
        return Response(SectionSerializer(get_object_or_404(sections, course__slug=slug, slug=section)).data)
