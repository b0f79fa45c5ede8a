"""What all tests share."""

import pytest
from pytest_django.fixtures import SettingsWrapper


@pytest.fixture(autouse=True)
def quick_passwords(settings: SettingsWrapper) -> None:
    """The real hasher takes most of a second on purpose; no test here is about it."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
