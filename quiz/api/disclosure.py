"""What a learner sees of an attempt. The one place where keys, feedback, explanations and staff points leave.

Pages use `attempt_document` too, so that nothing else has to know when they may be shown.
"""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from quiz import marking
from quiz.api.courses import ActivityLinkSerializer
from quiz.api.schema import MarkdownField
from quiz.markdown import render
from quiz.models import Attempt, Learner, Option, QuestionVersion, Response


class ServedOptionSerializer(serializers.Serializer[Option]):
    choice = serializers.CharField(source="key", help_text="What to send back to choose it.")
    text = serializers.CharField(help_text="Markdown.")
    text_html = MarkdownField(source="text")


class AnswerSerializer(serializers.ModelSerializer[Response]):
    """The answer as it is stored."""

    class Meta:
        model = Response
        fields = ["choice", "confidence", "sequence", "updated_at"]
        read_only_fields = fields


class ResultSerializer(serializers.Serializer[Response]):
    """Only of a submitted attempt."""

    correct = serializers.BooleanField()
    credit = serializers.DecimalField(max_digits=5, decimal_places=4)
    correct_choice = serializers.CharField()
    feedback = serializers.CharField(help_text="On the option you chose; empty: you chose none. Markdown.")
    feedback_html = MarkdownField(source="feedback")
    explanation = serializers.CharField(source="version.explanation", help_text="Markdown.")
    explanation_html = MarkdownField(source="version.explanation")
    staff_points = serializers.ListField(
        child=serializers.CharField(), source="version.staff_points", help_text="Points of a strong answer."
    )
    activity = ActivityLinkSerializer(
        source="version.question.activity", allow_null=True, help_text="The task that shows it at work."
    )

    def to_representation(self, response: Response) -> dict[str, Any]:
        options = list(response.version.options.all())
        response.correct = response.credit == marking.FULL  # type: ignore[attr-defined]
        response.correct_choice = next(o.key for o in options if o.correct)  # type: ignore[attr-defined]
        chosen = next((o.feedback for o in options if o.key == response.choice), "")
        response.feedback = chosen  # type: ignore[attr-defined]
        document: dict[str, Any] = super().to_representation(response)
        return document


class ServedQuestionSerializer(serializers.Serializer[Response]):
    position = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=QuestionVersion.Kind.choices, source="version.kind")
    stem = serializers.CharField(source="version.stem", help_text="Markdown.")
    stem_html = MarkdownField(source="version.stem")
    options = ServedOptionSerializer(many=True, source="version.options")
    response = AnswerSerializer(source="*")
    result = serializers.SerializerMethodField(help_text="Null until the attempt is submitted.")

    @extend_schema_field(ResultSerializer(allow_null=True))
    def get_result(self, response: Response) -> Any:
        if response.attempt.state != Attempt.State.SUBMITTED:
            return None
        return ResultSerializer(response).data


class CalibrationSerializer(serializers.Serializer[marking.Calibration]):
    answers = serializers.IntegerField(help_text="Answers with a confidence.")
    mean_confidence = serializers.IntegerField(help_text="Percent.")
    percent_correct = serializers.IntegerField()
    note = serializers.CharField()


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    quiz = serializers.SlugField(source="quiz.activity.slug")
    title = serializers.CharField(source="quiz.activity.title")
    offering = serializers.SlugField(source="offering.slug")
    score = serializers.DecimalField(
        max_digits=5, decimal_places=4, allow_null=True, help_text="0 to 1; null until submitted."
    )
    answered = serializers.SerializerMethodField()
    total = serializers.SerializerMethodField(help_text="Questions served.")
    answered_text = serializers.SerializerMethodField()
    questions = ServedQuestionSerializer(many=True, source="responses")
    calibration = serializers.SerializerMethodField(
        help_text="How sure you were beside how often you were right; null until submitted."
    )

    class Meta:
        model = Attempt
        fields = [
            *("public_id", "quiz", "title", "offering", "number", "state", "started_at", "submitted_at"),
            *("score", "answered", "total", "answered_text", "questions", "calibration"),
        ]
        read_only_fields = fields

    def get_answered(self, attempt: Attempt) -> int:
        return sum(1 for response in attempt.responses.all() if response.choice)

    def get_total(self, attempt: Attempt) -> int:
        return len(attempt.responses.all())

    def get_answered_text(self, attempt: Attempt) -> str:
        return f"{self.get_answered(attempt)} / {self.get_total(attempt)} answered"

    @extend_schema_field(CalibrationSerializer(allow_null=True))
    def get_calibration(self, attempt: Attempt) -> Any:
        if attempt.state != Attempt.State.SUBMITTED:
            return None
        answered: Sequence[Response] = [r for r in attempt.responses.all() if r.choice]
        found = marking.calibrate((r.confidence, r.credit == marking.FULL) for r in answered)
        return None if found is None else CalibrationSerializer(found).data


def attempts_of(learner: Learner) -> QuerySet[Attempt]:
    """A learner's attempts with all that `attempt_document` reads."""
    return (
        Attempt.objects.filter(learner=learner)
        .select_related("quiz__activity", "offering")
        .prefetch_related("responses__version__options", "responses__version__question__activity")
    )


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """The attempt as a learner may see it in its present state."""
    return dict(AttemptSerializer(attempt).data)


def preview_document(version: QuestionVersion) -> dict[str, Any]:
    """A version as a learner will see it, and what they read after submission; for authors only."""
    options = version.options.order_by("key")
    return {
        "stem_html": render(version.stem),
        "options": [
            {
                "choice": o.key,
                "text_html": render(o.text),
                "feedback_html": render(o.feedback),
                "correct": o.correct,
            }
            for o in options
        ],
        "explanation_html": render(version.explanation),
        "staff_points": version.staff_points,
    }
