import pytest
from django.core.cache import cache
from rest_framework.test import APIClient

from quiz.models import Learner, Offering, Quiz
from tests.quiz.builders import client_of, enrolled, make_course, make_learner, make_offering, make_quiz


@pytest.fixture(autouse=True)
def quick_and_unthrottled(settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()


@pytest.fixture
def offering(db) -> Offering:
    return make_offering(make_course())


@pytest.fixture
def quiz(offering) -> Quiz:
    return make_quiz(offering.course)


@pytest.fixture
def learner(offering) -> Learner:
    return enrolled(make_learner(), offering)


@pytest.fixture
def api(learner) -> APIClient:
    return client_of(learner)
