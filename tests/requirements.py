"""What a test may lack on a small machine, and what happens then."""

import os
from collections.abc import Sequence

import pytest


def require(present: bool, what: str) -> None:
    """Skip the test, naming what it lacks; fail it instead under STAFFLOOP_REQUIRE_ALL=1."""
    require_none([] if present else [what])


def require_none(lacking: Sequence[str]) -> None:
    """The same for all that the test lacks."""
    if not lacking:
        return
    told = f"lacks {'; '.join(lacking)}"
    if os.environ.get("STAFFLOOP_REQUIRE_ALL") == "1":
        pytest.fail(told)
    pytest.skip(told)
