"""Who is asking, of a page or over REST."""

from django.http import HttpRequest
from rest_framework.request import Request

from quiz.models import Learner


def learner_of(request: HttpRequest | Request) -> Learner:
    """The signed-in person; for pages behind login_required, and the API answers nobody else."""
    assert isinstance(request.user, Learner)
    return request.user
