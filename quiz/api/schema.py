"""What the OpenAPI description says the same way everywhere: who asks, problem documents, Markdown fields."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from quiz.markdown import render


class MarkdownField(serializers.CharField):
    """A Markdown source as clean HTML."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(read_only=True, **kwargs)

    def to_representation(self, value: str) -> str:
        return str(render(value))


class FieldErrorSerializer(serializers.Serializer[Any]):
    pointer = serializers.CharField(help_text="JSON pointer into the body, as a URI fragment: `#/choice`.")
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """A problem document (RFC 9457)."""

    type = serializers.CharField(help_text="Stable: `urn:staffloop:problem:…`.")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = FieldErrorSerializer(many=True, required=False)  # type: ignore[assignment]


MEANINGS = {
    400: "A value was not accepted; each error points at its field.",
    401: "Not signed in, or the token is no longer good.",
    403: "The rules do not allow it now: closed, used up, not enrolled.",
    404: "There is no such thing, or it is somebody else's.",
    409: "The state is no longer the one you saw.",
    406: "None of the media types in Accept is offered here.",
    413: "The body is longer than is read.",
    415: "The body is of a media type that is not read here.",
    422: "The Idempotency-Key came with another body before.",
    429: "Too many requests; Retry-After says when to come back.",
    501: "This server process cannot do it; the detail says what to do instead.",
    503: "Not now; Retry-After says when to come back.",
}


def problems(*statuses: int) -> dict[Any, Any]:
    """Responses for `extend_schema`."""
    return {
        (status, "application/problem+json"): OpenApiResponse(ProblemSerializer, MEANINGS[status])
        for status in statuses
    }


def example(name: str, value: Any, *, status: int = 200) -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=[str(status)])


def request_example(name: str, value: Any) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


def sends_location(*statuses: int) -> OpenApiParameter:
    """The header Location of these answers."""
    where = {"type": "string", "format": "uri-reference"}
    return OpenApiParameter(
        "Location", where, OpenApiParameter.HEADER, response=list(statuses), description="Of what was made."
    )


def sends_retry_after(*statuses: int) -> OpenApiParameter:
    """The header Retry-After of these answers: how soon polling is worth it."""
    return OpenApiParameter(
        "Retry-After",
        {"type": "string", "pattern": "^[0-9]+$"},
        OpenApiParameter.HEADER,
        response=list(statuses),
        description="Seconds; poll not sooner. Missing where nothing is left to wait for.",
    )


class BearerScheme(OpenApiAuthenticationExtension):
    target_class = "quiz.api.authentication.BearerAuthentication"
    name = "Bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A token from `POST /api/v1/tokens/`.",
        }


class SessionScheme(OpenApiAuthenticationExtension):
    """What the pages use; a request that writes carries the page's CSRF token too."""

    target_class = "rest_framework.authentication.SessionAuthentication"
    name = "Session"
    priority = 1

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": "sessionid",
            "description": "A page's session; writing needs `X-CSRFToken` as well.",
        }
