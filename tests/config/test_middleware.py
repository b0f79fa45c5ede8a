"""Bodies that are refused before anything parses them."""

import io
import json

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse

from config.middleware import BodyLimitMiddleware

BODY = json.dumps({"practice": True}).encode()


def answer_to(headers: dict[str, str], path: str = "/api/v1/runs/") -> HttpResponse:
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    return BodyLimitMiddleware(lambda request: HttpResponse("passed"))(ASGIRequest(scope, io.BytesIO(BODY)))


def test_a_body_in_chunks_is_refused_and_not_taken_for_an_empty_one():
    response = answer_to({"Transfer-Encoding": "chunked"})
    assert response.status_code == 411
    assert json.loads(response.content)["type"] == "urn:staffloop:problem:length-required"


@pytest.mark.parametrize("headers", [{"Content-Length": str(len(BODY))}, {}])
def test_a_body_with_its_length_passes_and_so_does_none(headers):
    assert answer_to(headers).content == b"passed"


def test_a_length_above_the_limit_is_refused(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert answer_to({"Content-Length": "11"}).status_code == 413


def test_pages_keep_their_own_rules():
    assert answer_to({"Transfer-Encoding": "chunked"}, path="/quizzes/").content == b"passed"


@pytest.mark.parametrize("charset", ["rot13", "zlib_codec", "undefined", "utf-16"])
@pytest.mark.parametrize(
    ("path", "kind"),
    [("/accounts/login/", "multipart/form-data; boundary=B"), ("/api/v1/tokens/", "application/json")],
)
def test_a_body_in_another_charset_is_refused_and_no_server_error(client, db, charset, path, kind):
    answer = client.generic("POST", path, b"--B--", content_type=f"{kind}; charset={charset}")
    assert answer.status_code == 400
    assert charset in answer.content.decode()
