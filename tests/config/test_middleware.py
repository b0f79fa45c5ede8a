"""Requests that are refused before a view sees them."""

import pytest


@pytest.mark.parametrize("charset", ["rot13", "zlib_codec", "undefined", "utf-16"])
@pytest.mark.parametrize(
    ("path", "kind"),
    [("/accounts/login/", "multipart/form-data; boundary=B"), ("/api/v1/tokens/", "application/json")],
)
def test_a_body_in_another_charset_is_refused_and_no_server_error(client, db, charset, path, kind):
    answer = client.generic("POST", path, b"--B--", content_type=f"{kind}; charset={charset}")
    assert answer.status_code == 400
    assert charset in answer.content.decode()


@pytest.mark.parametrize("path", ["/api/v1/tasks/?lab=%00", "/?next=%00"])
def test_nul_in_a_query_is_refused(client, db, path):
    assert client.get(path).status_code == 400
