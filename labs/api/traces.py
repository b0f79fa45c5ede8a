"""Recorded traces over REST: handed in as they are, checked by a worker, named by their hash in a run's parameters."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from labs.api.examples import traces as examples
from labs.api.polling import POLL_S
from labs.api.uploads import UPLOAD_PARSERS, uploaded
from labs.models import Lab, Trace, TraceFile
from labs.traces import give_up, hand_in
from quiz.api.schema import example, problems, sends_location, sends_retry_after
from quiz.asking import learner_of


class NoteSerializer(serializers.Serializer[Any]):
    line = serializers.IntegerField(help_text="From 1.")
    field = serializers.CharField()
    message = serializers.CharField()
    is_refused = serializers.BooleanField(help_text="False: repaired, and used.")


class SummarySerializer(serializers.Serializer[Any]):
    """As simworkers/trace_summary.py counts it, without what only runs are asked of; a test compares the two."""

    sessions = serializers.IntegerField(help_text="1 where the rows have no sessions.")
    has_sessions = serializers.BooleanField(default=True, help_text="False: the rows have none.")
    requests = serializers.IntegerField()
    subagent_requests = serializers.IntegerField(help_text="Of these, sent by subagents.")
    block_references = serializers.IntegerField(
        help_text="Ids of the prompts' blocks, each time one is named."
    )
    block_sizes = serializers.ListField(
        child=serializers.IntegerField(), help_text="Tokens in a block: the smallest 20."
    )
    block_sizes_left_out = serializers.IntegerField(default=0, help_text="How many more there are.")
    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    longest_session_s = serializers.FloatField(help_text="From its first request to its last.")
    subagent_times = serializers.ChoiceField(
        ["marker", "session"], help_text="From where subagents' times count."
    )
    lines_refused = serializers.IntegerField()
    repairs = serializers.IntegerField(help_text="A line may have several.")
    notes = NoteSerializer(many=True, help_text="The first 50; all are counted.")


class TraceSerializer(serializers.ModelSerializer[Trace]):
    url = serializers.HyperlinkedIdentityField(view_name="api-trace", lookup_field="public_id")
    sha256 = serializers.CharField(
        source="file.digest", help_text="Of the file as sent: the value of a parameter that takes a trace."
    )
    bytes = serializers.IntegerField(source="file.bytes_sent", help_text="Of the file as sent.")
    state = serializers.ChoiceField(TraceFile.State.choices, source="file.state")
    reason = serializers.CharField(source="file.reason", help_text="Why it was refused.")
    offered = serializers.BooleanField(source="is_offered", help_text="To everyone, by an author.")
    default_of: serializers.SlugRelatedField[Lab] = serializers.SlugRelatedField(
        slug_field="slug", many=True, read_only=True, help_text="Labs whose value `default` is this trace."
    )
    summary = SummarySerializer(
        source="file.summary", allow_null=True, help_text="Null until it is checked, and where it is refused."
    )
    checked_at = serializers.DateTimeField(source="file.checked_at", allow_null=True)

    class Meta:
        model = Trace
        fields = [
            "url",
            "public_id",
            "name",
            "sha256",
            "bytes",
            "state",
            "reason",
            "offered",
            "default_of",
            "summary",
            "created_at",
            "checked_at",
        ]


def shown_traces(request: Request) -> QuerySet[Trace]:
    return Trace.objects.shown_to(learner_of(request)).prefetch_related("default_of")


FORM = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "contentMediaType": "application/octet-stream"},
        "name": {"type": "string"},
    },
    "required": ["file"],
}
RAW = {"application/gzip": OpenApiTypes.BINARY, "application/x-ndjson": OpenApiTypes.BINARY}
RAW |= {"application/octet-stream": OpenApiTypes.BINARY}


class TraceList(generics.ListAPIView[Trace]):
    serializer_class = TraceSerializer
    parser_classes = UPLOAD_PARSERS
    submits = True

    def get_queryset(self) -> QuerySet[Trace]:
        if getattr(self, "swagger_fake_view", False):
            return Trace.objects.none()
        return shown_traces(self.request)

    @extend_schema(
        operation_id="list_traces",
        tags=["traces"],
        summary="My traces and those that are offered, newest first",
        examples=[example("A trace", examples.TRACE)],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="hand_in_trace",
        tags=["traces"],
        summary="Hand in a recorded trace",
        description="The file as it is, plain or gzip, as the body or as the part `file` of a form; at most 25 MiB "
        "as sent unless the site says otherwise. What it is says its content, not its media type. The same file again "
        "is the same trace, so that a repeated request needs no key.",
        parameters=[
            OpenApiParameter(
                "name",
                str,
                description="What to call it; else the file's name in Content-Disposition or the form. 100 characters "
                "are kept.",
            ),
            sends_location(200, 201, 202),
            sends_retry_after(202),
        ],
        request={**RAW, "multipart/form-data": FORM},
        responses={
            200: OpenApiResponse(TraceSerializer, description="You held it already, and it is checked."),
            201: OpenApiResponse(TraceSerializer, description="New to you; it was checked before."),
            202: OpenApiResponse(TraceSerializer, description="A worker checks it; poll `Location`."),
            **problems(400, 401, 403, 413, 415, 429),
        },
        examples=examples.HAND_IN_TRACE,
    )
    def post(self, request: Request) -> Response:
        name, parts = uploaded(request)
        held, is_new = hand_in(learner=learner_of(request), name=name, parts=parts)
        trace = shown_traces(request).get(pk=held.pk)
        data = TraceSerializer(trace, context={"request": request}).data
        headers = {"Location": str(data["url"])}
        if trace.file.state == TraceFile.State.CHECKING:
            headers["Retry-After"] = POLL_S
            return Response(data, status=status.HTTP_202_ACCEPTED, headers=headers)
        code = status.HTTP_201_CREATED if is_new else status.HTTP_200_OK
        return Response(data, status=code, headers=headers)


class TraceDetail(generics.GenericAPIView[Trace]):
    """One of the caller's own, or one that is offered; somebody else's does not exist."""

    serializer_class = TraceSerializer
    lookup_field = "public_id"

    def get_queryset(self) -> QuerySet[Trace]:
        if getattr(self, "swagger_fake_view", False):
            return Trace.objects.none()
        return shown_traces(self.request)

    @extend_schema(
        operation_id="read_trace",
        tags=["traces"],
        summary="One trace: its state, and what is in it",
        parameters=[sends_retry_after(200)],
        description="Poll with If-None-Match until it is `ready` or `refused`.",
        examples=[example("Checked", examples.TRACE), example("Refused", examples.REFUSED_TRACE)],
    )
    def get(self, request: Request, public_id: str) -> Response:
        trace = self.get_object()
        response = Response(self.get_serializer(trace).data)
        if trace.file.state == TraceFile.State.CHECKING:
            response["Retry-After"] = POLL_S
        return response

    @extend_schema(
        operation_id="delete_trace",
        tags=["traces"],
        summary="Give up one of my traces",
        description="Its file goes too, once nobody else holds it, it is read by no run that is under way or whose "
        "report is kept, and no attempt is open that was drawn from it.",
        responses={204: None, **problems(401, 403, 404)},
    )
    def delete(self, request: Request, public_id: str) -> Response:
        trace = get_object_or_404(self.get_queryset(), public_id=public_id)
        if trace.is_offered:
            raise PermissionDenied("This trace is offered to everyone; an author takes it back.")
        give_up(trace=trace)
        return Response(status=status.HTTP_204_NO_CONTENT)
