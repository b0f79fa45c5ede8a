"""A task's leaderboard over REST. Learners see ranks and names, and of themselves all but the final instance."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
)
from rest_framework import generics, serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from labs import leaderboard
from labs.api.examples import leaderboard as examples
from labs.api.polling import POLL_S
from labs.api.tasks import published_tasks
from labs.display_names import SHORTEST
from labs.leaderboard import Standing
from labs.models import FinalRun, LabTask, LeaderboardEntry
from labs.models.leaderboard import NAME_LENGTH
from quiz.api.fields import Words
from quiz.api.schema import example, problems, sends_retry_after
from quiz.asking import learner_of
from quiz.errors import InvalidInput
from quiz.models import Learner, Offering
from quiz.services import choose_offering

IN_CLASS = OpenApiParameter("offering", str, description="The class; needed where you are in several.")


def board_of(slug: str) -> LabTask:
    """404 where the task has no leaderboard, or is not published."""
    tasks = published_tasks().select_related("lab__default_trace__file")
    return get_object_or_404(tasks, activity__slug=slug, leaderboard=True)


def class_of(request: Request, task: LabTask) -> Offering:
    """The named class, or the caller's only one. Staff may look at any."""
    learner, slug = learner_of(request), request.query_params.get("offering")
    if slug is not None and learner.is_staff:
        return get_object_or_404(Offering, course=task.activity.course, slug=slug)
    return choose_offering(learner=learner, course=task.activity.course, slug=slug)


class RankedLearnerSerializer(serializers.ModelSerializer[Learner]):
    class Meta:
        model = Learner
        fields = ["public_id", "username"]


class LeaderboardRowSerializer(serializers.Serializer[Any]):
    rank = serializers.IntegerField(help_text="From 1. Of equal scores the one submitted first stands first.")
    display_name = serializers.CharField()
    own = serializers.SerializerMethodField(help_text="Whether it is the caller's.")
    score = serializers.SerializerMethodField(help_text="For staff; else null.")
    learner = serializers.SerializerMethodField(help_text="For staff; else null.")

    def get_own(self, row: LeaderboardEntry) -> bool:
        return bool(row.learner_id == self.context["learner"].pk)

    @extend_schema_field(serializers.FloatField(allow_null=True))
    def get_score(self, row: Any) -> float | None:
        return row.score if self.context["sees_all"] else None

    @extend_schema_field(RankedLearnerSerializer(allow_null=True))
    def get_learner(self, row: LeaderboardEntry) -> Any:
        return RankedLearnerSerializer(row.learner).data if self.context["sees_all"] else None


class FinalRunSerializer(serializers.ModelSerializer[FinalRun]):
    """A graded run as computed on the final instance. Of the instance nothing is told."""

    run = serializers.UUIDField(source="run.public_id", help_text="Id of the graded run that it repeats.")
    reason = serializers.CharField(help_text="Why it cannot be ranked.")

    class Meta:
        model = FinalRun
        fields = ["run", "state", "score", "reason", "engine_version", "computed_at"]


class StandingSerializer(serializers.Serializer[Any]):
    """The caller's own entry."""

    display_name = serializers.CharField(source="entry.display_name")
    state = serializers.ChoiceField(
        choices=["ranked", "computing", "refused", "failed", "left"],
        help_text="`refused`: what was handed in cannot be ranked. `failed`: our fault. `left`: you are no longer in "
        "the class, and nobody sees the entry.",
    )
    rank = serializers.IntegerField(allow_null=True)
    score = serializers.FloatField(allow_null=True, help_text="The best of the final runs.")
    created_at = serializers.DateTimeField(source="entry.created_at")
    final_runs = FinalRunSerializer(source="finals", many=True)


class EnterSerializer(serializers.Serializer[Any]):
    """Body of an entry."""

    display_name = Words(
        min_length=SHORTEST,
        max_length=NAME_LENGTH,
        help_text="What others read: letters of one script, digits, spaces and - _ . ' alone, nobody's login, once "
        "in a class.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = set(self.initial_data) - set(self.fields)
        if unknown:
            raise serializers.ValidationError(dict.fromkeys(sorted(unknown), "is not a field here"))
        return attrs


class Leaderboard(generics.ListAPIView[LeaderboardEntry]):
    """Those who let themselves be ranked, best first."""

    serializer_class = LeaderboardRowSerializer
    ordering = ("rank",)

    def get_queryset(self) -> QuerySet[LeaderboardEntry]:
        if getattr(self, "swagger_fake_view", False):
            return LeaderboardEntry.objects.none()
        task = board_of(self.kwargs["slug"])
        self.offering = class_of(self.request, task)
        return leaderboard.ranking(task, self.offering).select_related("learner")

    def get_serializer_context(self) -> dict[str, Any]:
        context = dict(super().get_serializer_context())
        if hasattr(self, "offering"):
            learner = learner_of(self.request)
            context |= {"learner": learner, "sees_all": leaderboard.sees_all(learner, self.offering)}
        return context

    @extend_schema(
        operation_id="read_leaderboard",
        tags=["tasks"],
        summary="A task's leaderboard in a class, best first",
        description="Ranked is a final run: what a graded run handed in, computed on one instance that is the same "
        "for all and shown to nobody. Learners see ranks and display names; staff see scores and people too.",
        parameters=[IN_CLASS],
        responses={200: LeaderboardRowSerializer(many=True), **problems(400, 401, 403, 404)},
        examples=[
            example("As a learner", examples.LEADERBOARD_ROW),
            example("As staff", examples.LEADERBOARD_STAFF_ROW),
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)


class OwnEntry(APIView):
    """The caller's own entry: entered, renamed, looked at, withdrawn."""

    submits = True

    def own(self, request: Request, slug: str) -> LeaderboardEntry:
        task = board_of(slug)
        entries = leaderboard.entries_of(learner=learner_of(request), task=task)
        if (named := request.query_params.get("offering")) is not None:
            entries = entries.filter(offering__slug=named)
        found = list(entries[:2])
        if not found:
            raise NotFound("You have not entered this leaderboard.")
        if len(found) > 1:
            raise InvalidInput([("/offering", "you have entered in several classes: name one")])
        return found[0]

    @extend_schema(
        operation_id="read_leaderboard_entry",
        tags=["tasks"],
        summary="My entry: its rank, its score and its final runs",
        parameters=[IN_CLASS, sends_retry_after(200)],
        responses={200: StandingSerializer, **problems(400, 401, 403, 404)},
        examples=[
            example("A worker computes", examples.COMPUTING_ENTRY),
            example("Ranked", examples.LEADERBOARD_ENTRY),
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        return shown(leaderboard.standing_of(self.own(request, slug)))

    @extend_schema(
        operation_id="enter_leaderboard",
        tags=["tasks"],
        summary="Enter the leaderboard under a display name, or change the name",
        description="Needs a graded run; practice does not count. Every graded run, later ones too, is computed on "
        "the final instance, and the best counts. It changes no grade and uses no attempt. Sent again it changes "
        "nothing.",
        parameters=[IN_CLASS, sends_retry_after(200, 201)],
        request=EnterSerializer,
        responses={
            201: StandingSerializer,
            200: OpenApiResponse(StandingSerializer, "You had entered already; the name is as sent."),
            **problems(400, 401, 403, 404, 409, 429),
        },
        examples=examples.ENTER_LEADERBOARD,
    )
    def put(self, request: Request, slug: str) -> Response:
        task = board_of(slug)
        body = EnterSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        with transaction.atomic():  # what is answered is what was stored, whoever withdraws it next
            entry, is_new = leaderboard.enter(
                learner=learner_of(request),
                task=task,
                offering=class_of(request, task),
                display_name=body.validated_data["display_name"],
            )
            standing = leaderboard.standing_of(entry)
        return shown(standing, status.HTTP_201_CREATED if is_new else status.HTTP_200_OK)

    @extend_schema(
        operation_id="withdraw_leaderboard_entry",
        tags=["tasks"],
        summary="Withdraw from the leaderboard",
        description="The name and its final runs are deleted. Runs and grades stay as they are.",
        parameters=[IN_CLASS],
        responses={204: OpenApiResponse(description="Withdrawn."), **problems(400, 401, 403, 404)},
    )
    def delete(self, request: Request, slug: str) -> Response:
        leaderboard.withdraw(entry=self.own(request, slug))
        return Response(status=status.HTTP_204_NO_CONTENT)


def shown(standing: Standing, made: int = status.HTTP_200_OK) -> Response:
    headers = {"Retry-After": POLL_S} if standing.is_awaited else None
    return Response(StandingSerializer(standing).data, status=made, headers=headers)
