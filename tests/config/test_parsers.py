"""What a body of the API may not be: another charset, a key twice; and where its faults are pointed at."""

import zlib

import pytest
from rest_framework.test import APIClient

pytestmark = pytest.mark.django_db


@pytest.fixture
def post(settings):
    settings.STAFFLOOP_OPEN_REGISTRATION = True

    def send(body: bytes, charset: str = "utf-8"):
        content_type = f"application/json; charset={charset}"
        return APIClient().post("/api/v1/learners/", data=body, content_type=content_type)

    return send


@pytest.mark.parametrize("charset", ["zlib_codec", "bz2_codec", "rot13", "hex_codec", "utf-16"])
def test_a_charset_other_than_utf_8_is_refused_and_nothing_is_unpacked(post, charset):
    answer = post(zlib.compress(b" " * 2**20 + b"{}"), charset)
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:staffloop:problem:malformed")
    assert charset in answer.json()["detail"]


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", "nobody-knows-it"])
def test_utf_8_is_read_also_where_the_charset_is_unknown(post, charset):
    assert post('{"username": "é", "password": "violet-turbine-41"}'.encode(), charset).status_code == 201


def test_a_key_that_appears_twice_is_refused_by_name(post):
    answer = post(b'{"username": "ada", "username": "eve", "password": "violet-turbine-41"}')
    assert answer.status_code == 400
    assert "'username' appears twice" in answer.json()["detail"]


def test_a_pointer_escapes_slashes_and_tildes_of_keys(post):
    answer = post(b'{"a/b~c": [1e999]}')
    assert [row["pointer"] for row in answer.json()["errors"]] == ["#/a~1b~0c/0"]
