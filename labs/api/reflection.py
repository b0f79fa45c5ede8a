"""Looking back on a graded run over REST: explain it, check the explanation, vary one cause."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from labs import reflection
from labs.api.disclosure import RunSerializer
from labs.api.examples import runs as examples
from labs.api.examples.shared import RUN_ID
from labs.api.polling import POLL_S
from labs.models import Explanation, Run
from quiz.api.fields import TrueOrFalse, Words
from quiz.api.idempotency import idempotent
from quiz.api.schema import example, problems, request_example, sends_location, sends_retry_after
from quiz.asking import learner_of

EXPLANATION = {
    "text": "Expert 5 drew three times its share, and one GPU held it alone; two copies split its tokens.",
    "points": [
        "Copies split one expert's tokens; moving cannot.",
        "Each copy costs an expert in every layer.",
    ],
    "self_check": [True, False],
    "staff_check": None,
    "staff_comment": "",
    "points_made": 1,
    "written_at": "2026-03-02T09:41:00Z",
    "checked_at": "2026-03-02T09:44:00Z",
}
DIFFERENCE = {
    "altered": [{"name": "redundant_slots_per_gpu", "before": 1, "after": 2}],
    "metrics": [
        {"name": "max_over_mean_mean", "unit": "ratio", "before": 1.09, "after": 1.04, "change": -0.05},
    ],
}
VARIED_RUN = {
    **examples.QUEUED_RUN,
    "task": None,
    "task_attempt": None,
    "seed": 11,
    "prediction": None,
    "varied_from": RUN_ID,
}


class ExplanationSerializer(serializers.ModelSerializer[Explanation]):
    points = serializers.ListField(child=serializers.CharField(), help_text="The staff answer's points.")
    self_check = serializers.ListField(
        child=serializers.BooleanField(), allow_null=True, help_text="Your ticks, one for each point."
    )
    staff_check = serializers.ListField(child=serializers.BooleanField(), allow_null=True)
    points_made = serializers.IntegerField(allow_null=True, help_text="By staff's ticks, or else by yours.")

    class Meta:
        model = Explanation
        fields = [
            "text",
            "points",
            "self_check",
            "staff_check",
            "staff_comment",
            "points_made",
            "written_at",
            "checked_at",
        ]


class WriteExplanationSerializer(serializers.Serializer[Any]):
    text = Words(
        max_length=reflection.TEXT_LIMIT, help_text="Why the run came out as it did, in your own words."
    )


class SelfCheckSerializer(serializers.Serializer[Any]):
    made = serializers.ListField(
        child=TrueOrFalse(),
        help_text="One true or false for each staff point: did your text make it?",
    )


class VariationSerializer(serializers.Serializer[Any]):
    params = serializers.SerializerMethodField(help_text="Exactly one parameter and its other value.")

    @extend_schema_field(dict[str, Any])
    def get_params(self, value: Any) -> Any:
        return value


class AlteredSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()


class ChangeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    unit = serializers.CharField()
    before = serializers.FloatField()
    after = serializers.FloatField()
    change = serializers.FloatField()


class DifferenceSerializer(serializers.Serializer[Any]):
    altered = AlteredSerializer(many=True)
    metrics = ChangeSerializer(many=True)


def own_run(request: Request, public_id: str) -> Run:
    return get_object_or_404(Run.objects.shown_to(learner_of(request)), public_id=public_id)


def explanation_of(request: Request, public_id: str) -> Explanation:
    return get_object_or_404(Explanation, run=own_run(request, public_id))


class RunExplanation(APIView):
    """The staff answer's points are shown once the explanation stands."""

    @extend_schema(
        operation_id="read_explanation",
        tags=["runs"],
        summary="My explanation of a run, and the staff points",
        responses={200: ExplanationSerializer, **problems(401, 404)},
        examples=[example("Checked", EXPLANATION)],
    )
    def get(self, request: Request, public_id: str) -> Response:
        return Response(ExplanationSerializer(explanation_of(request, public_id)).data)

    @extend_schema(
        operation_id="explain_run",
        tags=["runs"],
        summary="Explain a graded run, once",
        request=WriteExplanationSerializer,
        responses={200: ExplanationSerializer, **problems(400, 401, 404, 409)},
        examples=[
            request_example("In my own words", {"text": EXPLANATION["text"]}),
            example("Stored", {**EXPLANATION, "self_check": None, "points_made": None, "checked_at": None}),
        ],
    )
    def put(self, request: Request, public_id: str) -> Response:
        run = own_run(request, public_id)
        body = WriteExplanationSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        explanation = reflection.explain_run(run=run, text=body.validated_data["text"])
        return Response(ExplanationSerializer(explanation).data)


class RunSelfCheck(APIView):
    @extend_schema(
        operation_id="check_explanation",
        tags=["runs"],
        summary="Tick the staff points that my explanation makes",
        request=SelfCheckSerializer,
        responses={200: ExplanationSerializer, **problems(400, 401, 404, 409)},
        examples=[request_example("One of two", {"made": [True, False]}), example("Checked", EXPLANATION)],
    )
    def put(self, request: Request, public_id: str) -> Response:
        """May be changed until staff has checked it."""
        explanation = explanation_of(request, public_id)
        body = SelfCheckSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        made = body.validated_data["made"]
        return Response(
            ExplanationSerializer(reflection.check_explanation(explanation=explanation, made=made)).data
        )


class RunVariations(APIView):
    submits = True

    @extend_schema(
        operation_id="vary_run",
        tags=["runs"],
        summary="What if one thing changed?",
        description="Repeats a graded run with one parameter altered and the same seed. It counts nowhere.",
        parameters=[sends_location(202), sends_retry_after(202)],
        request=VariationSerializer,
        responses={202: RunSerializer, **problems(400, 401, 404, 409, 429)},
        examples=[
            request_example("One more slot", {"params": {"redundant_slots_per_gpu": 2}}),
            example("Queued", VARIED_RUN, status=202),
        ],
    )
    @idempotent
    def post(self, request: Request, public_id: str) -> Response:
        run = own_run(request, public_id)
        changes = request.data.get("params") if isinstance(request.data, dict) else None
        varied = reflection.vary_run(learner=learner_of(request), run=run, changes=changes)
        data = RunSerializer(
            Run.objects.shown_to(learner_of(request)).get(pk=varied.pk), context={"request": request}
        ).data
        headers = {"Location": str(data["url"]), "Retry-After": POLL_S}
        return Response(data, status=status.HTTP_202_ACCEPTED, headers=headers)


class RunDifference(APIView):
    @extend_schema(
        operation_id="read_difference",
        tags=["runs"],
        summary="A varied run beside the one it was varied from",
        responses={200: DifferenceSerializer, **problems(401, 404, 409)},
        examples=[example("One more slot", DIFFERENCE)],
    )
    def get(self, request: Request, public_id: str) -> Response:
        return Response(DifferenceSerializer(reflection.difference(own_run(request, public_id))).data)
