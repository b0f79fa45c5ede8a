"""What all tests share."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# How long an example takes says how busy the machine is. In CI a run repeats what the one before it tried.
hypothesis_settings.register_profile(
    "staffloop",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    print_blob=True,
)
hypothesis_settings.load_profile("staffloop")


@pytest.fixture(autouse=True)
def quick_passwords(settings: Any) -> None:
    """The real hasher takes most of a second on purpose; no test here is about it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def plain_static_names(settings: Any) -> None:
    """Hashed names need collectstatic; tests that look at what is served run it themselves."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
