"""What a test may lack on a small machine, and what happens then."""

import os

import pytest


def require(present: bool, what: str) -> None:
    """Skip the test, naming what it lacks; fail it instead under STAFFLOOP_REQUIRE_ALL=1."""
    if present:
        return
    if os.environ.get("STAFFLOOP_REQUIRE_ALL") == "1":
        pytest.fail(f"lacks {what}")
    pytest.skip(f"lacks {what}")
