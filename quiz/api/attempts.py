"""Quizzes and a learner's attempts at them."""

from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from quiz import services
from quiz.api import examples
from quiz.api.disclosure import AnswerSerializer, AttemptSerializer, attempt_document, attempts_of
from quiz.api.fields import WholeNumber
from quiz.api.idempotency import idempotent
from quiz.api.schema import example, problems, request_example
from quiz.models import Attempt, Learner, Quiz

# What a PositiveIntegerField holds on every database. It also refuses clocks: a time in milliseconds is no sequence.
LARGEST_SEQUENCE = 2**31 - 1


class AttemptLinkSerializer(serializers.ModelSerializer[Attempt]):
    offering = serializers.SlugField(source="offering.slug")

    class Meta:
        model = Attempt
        fields = ["public_id", "offering", "number", "state", "score", "started_at", "submitted_at"]
        read_only_fields = fields


class QuizSerializer(serializers.Serializer[Any]):
    slug = serializers.SlugField()
    title = serializers.CharField()
    points = serializers.DecimalField(max_digits=7, decimal_places=2)
    total = serializers.IntegerField(help_text="Questions that a new attempt would serve.")
    attempts_allowed = serializers.IntegerField(help_text="In each class.")
    attempts = AttemptLinkSerializer(many=True, help_text="Yours, newest first.")


class StartSerializer(serializers.Serializer[Any]):
    offering = serializers.SlugField(
        required=False, help_text="The class it counts in; needed only by those in several of the course."
    )


class AnswerWriteSerializer(serializers.Serializer[Any]):
    choice = serializers.CharField(
        max_length=1, allow_blank=True, help_text="`choice` of an option; empty: none."
    )
    confidence = WholeNumber(
        min_value=0,
        max_value=100,
        allow_null=True,
        default=None,
        help_text="Percent; never changes the score.",
    )
    sequence = WholeNumber(
        min_value=1, max_value=LARGEST_SEQUENCE, help_text="The last one you saw, plus one."
    )


def visible_quiz(learner: Learner, slug: str) -> Quiz:
    courses = services.visible_offerings(learner=learner).values("course")
    quizzes = Quiz.objects.filter(activity__course__in=courses).select_related("activity__course")
    return get_object_or_404(quizzes, activity__slug=slug)


class QuizView(APIView):
    @extend_schema(
        operation_id="read_quiz",
        summary="A quiz and my attempts at it",
        tags=["quiz"],
        responses={200: QuizSerializer, **problems(401, 404)},
        examples=[example("Before the first attempt", examples.QUIZ)],
    )
    def get(self, request: Request, slug: str) -> Response:
        """Its questions are served by an attempt."""
        assert isinstance(request.user, Learner)
        quiz = visible_quiz(request.user, slug)
        document = {
            "slug": quiz.activity.slug,
            "title": quiz.activity.title,
            "points": quiz.activity.points,
            "total": len(services.served_versions(quiz)),
            "attempts_allowed": quiz.attempts_allowed,
            "attempts": quiz.attempts.filter(learner=request.user).select_related("offering").order_by("-pk"),
        }
        return Response(QuizSerializer(document).data)


class AttemptsView(APIView):
    submits = True

    @extend_schema(
        operation_id="start_attempt",
        summary="Start an attempt, or go on with the open one",
        tags=["quiz"],
        request=StartSerializer,
        responses={
            201: AttemptSerializer,
            200: OpenApiResponse(AttemptSerializer, "The attempt that is open already."),
            **problems(400, 401, 403, 404),
        },
        examples=[
            request_example("In the only class I am in", {}),
            example("Started", examples.OPEN_ATTEMPT, status=201),
            example("Open already", examples.OPEN_ATTEMPT),
        ],
    )
    @idempotent
    def post(self, request: Request, slug: str) -> Response:
        """Only one attempt is open at a time, so that starting twice uses one."""
        assert isinstance(request.user, Learner)
        form = StartSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        quiz = visible_quiz(request.user, slug)
        offering = services.choose_offering(
            learner=request.user, course=quiz.activity.course, slug=form.validated_data.get("offering")
        )
        attempt, created = services.start_attempt(learner=request.user, quiz=quiz, offering=offering)
        shown = attempt_document(attempts_of(request.user).get(pk=attempt.pk))
        place = reverse("api-attempt", args=[attempt.public_id])
        return Response(shown, status=201 if created else 200, headers={"Location": place})


class AttemptView(APIView):
    @extend_schema(
        operation_id="read_attempt",
        summary="My attempt: the questions served, my answers, and once submitted the result",
        tags=["quiz"],
        responses={200: AttemptSerializer, **problems(401, 404)},
        examples=[
            example("Two answered", examples.OPEN_ATTEMPT),
            example("Submitted", examples.SUBMITTED_ATTEMPT),
        ],
    )
    def get(self, request: Request, public_id: str) -> Response:
        assert isinstance(request.user, Learner)
        return Response(attempt_document(get_object_or_404(attempts_of(request.user), public_id=public_id)))


class ResponseView(APIView):
    @extend_schema(
        operation_id="save_response",
        summary="Store my answer to one question",
        tags=["quiz"],
        request=AnswerWriteSerializer,
        responses={200: AnswerSerializer, **problems(400, 401, 403, 404, 409)},
        examples=[
            request_example("Quite sure", examples.ANSWER_WRITE),
            example("Stored", examples.ANSWER),
        ],
    )
    def put(self, request: Request, public_id: str, position: int) -> Response:
        """Replaces choice and confidence together. A write whose sequence is not above the stored one is
        refused with 409 and changes nothing; the same write sent again is answered as the first time."""
        attempt = get_object_or_404(Attempt, learner=request.user, public_id=public_id)
        get_object_or_404(attempt.responses, position=position)
        form = AnswerWriteSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        saved = services.save_response(attempt=attempt, position=position, **form.validated_data)
        return Response(AnswerSerializer(saved).data)


class SubmissionView(APIView):
    submits = True

    @extend_schema(
        operation_id="submit_attempt",
        summary="Submit, and get the marked result",
        tags=["quiz"],
        request=None,
        responses={200: AttemptSerializer, **problems(401, 404)},
        examples=[example("Marked", examples.SUBMITTED_ATTEMPT)],
    )
    @idempotent
    def post(self, request: Request, public_id: str) -> Response:
        """Questions without an answer earn nothing. Submitting again returns the same result."""
        assert isinstance(request.user, Learner)
        attempt = get_object_or_404(attempts_of(request.user), public_id=public_id)
        services.submit_attempt(attempt=attempt)
        return Response(attempt_document(attempts_of(request.user).get(pk=attempt.pk)))
