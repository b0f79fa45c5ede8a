"""What a test does that lacks something on this machine."""

import pytest

from tests.requirements import require, require_none


def test_what_is_lacking_skips_the_test_and_is_named(monkeypatch):
    monkeypatch.delenv("STAFFLOOP_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="lacks chromium"):
        require(False, "chromium")


def test_all_that_is_lacking_is_named_at_once(monkeypatch):
    monkeypatch.delenv("STAFFLOOP_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="lacks PostgreSQL; Redis"):
        require_none(["PostgreSQL", "Redis"])


def test_where_all_is_required_it_fails_the_test_and_is_named(monkeypatch):
    monkeypatch.setenv("STAFFLOOP_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="lacks chromium"):
        require(False, "chromium")


def test_what_is_there_lets_the_test_go_on(monkeypatch):
    monkeypatch.setenv("STAFFLOOP_REQUIRE_ALL", "1")
    require(True, "chromium")
