"""Accounts and tokens."""

from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from quiz import services
from quiz.api import examples
from quiz.api.authentication import BearerAuthentication
from quiz.api.schema import example, problems, request_example
from quiz.api.throttling import RegistrationThrottle, SignInThrottle
from quiz.errors import Closed
from quiz.models import Learner


class LearnerSerializer(serializers.ModelSerializer[Learner]):
    class Meta:
        model = Learner
        fields = ["public_id", "username", "is_staff"]
        read_only_fields = fields


class CredentialsSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=128, trim_whitespace=False, style={"input_type": "password"})


class TokenSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="Shown once. Send it as `Authorization: Bearer …`.")
    expires_at = serializers.DateTimeField(source="expiry", allow_null=True)
    learner = LearnerSerializer()


class LearnersView(APIView):
    authentication_classes = []
    permission_classes = [AllowAny]
    throttle_classes = [RegistrationThrottle]

    @extend_schema(
        operation_id="register",
        summary="Make an account",
        tags=["people"],
        request=CredentialsSerializer,
        responses={201: LearnerSerializer, **problems(400, 403, 429)},
        examples=[
            request_example("A new learner", examples.CREDENTIALS),
            example("Made", examples.LEARNER, status=201),
        ],
    )
    def post(self, request: Request) -> Response:
        """Open only where the site allows it (`STAFFLOOP_OPEN_REGISTRATION`)."""
        if not settings.STAFFLOOP_OPEN_REGISTRATION:
            raise Closed("Nobody can make an account here by themselves; ask whoever runs this site.")
        form = CredentialsSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        return Response(LearnerSerializer(services.register_learner(**form.validated_data)).data, status=201)


class TokensView(APIView):
    authentication_classes = []
    permission_classes = [AllowAny]
    throttle_classes = [SignInThrottle]

    def get_authenticate_header(self, request: Request) -> str:
        # Without one, DRF turns a wrong password into 403.
        return "Bearer"

    @extend_schema(
        operation_id="sign_in",
        summary="Exchange a password for a token",
        tags=["people"],
        request=CredentialsSerializer,
        responses={201: TokenSerializer, **problems(400, 401, 429)},
        examples=[
            request_example("Signing in", examples.CREDENTIALS),
            example("A token", examples.TOKEN, status=201),
        ],
    )
    def post(self, request: Request) -> Response:
        form = CredentialsSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        learner = authenticate(request, **form.validated_data)
        if not isinstance(learner, Learner):
            raise AuthenticationFailed("No account has this username and password.")
        row, token = services.issue_token(learner=learner)
        answer = TokenSerializer({"token": token, "expiry": row.expiry, "learner": learner})
        return Response(answer.data, status=201, headers={"Cache-Control": "no-store"})


class CurrentTokenView(APIView):
    authentication_classes = [BearerAuthentication]

    @extend_schema(
        operation_id="sign_out",
        summary="Give the token back",
        tags=["people"],
        request=None,
        responses={204: None, **problems(401)},
    )
    def delete(self, request: Request) -> Response:
        """The token of this request is worth nothing afterwards."""
        request.auth.delete()
        return Response(status=204)


class MeView(APIView):
    @extend_schema(
        operation_id="read_me",
        summary="Who am I?",
        tags=["people"],
        responses={200: LearnerSerializer, **problems(401)},
        examples=[example("A learner", examples.LEARNER)],
    )
    def get(self, request: Request) -> Response:
        assert isinstance(request.user, Learner)
        return Response(LearnerSerializer(request.user).data)
