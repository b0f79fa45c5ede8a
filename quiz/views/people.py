"""Who is asking."""

from django.http import HttpRequest

from quiz.models import Learner


def learner_of(request: HttpRequest) -> Learner:
    """The signed-in person; for views behind login_required."""
    assert isinstance(request.user, Learner)
    return request.user
