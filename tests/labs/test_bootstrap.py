"""Making a site ready, and its two people."""

import io
import json
import re

import pytest
from django.core.management import CommandError, call_command

from labs.management.commands.bootstrap import person, remembered_passwords
from quiz.models import Learner


@pytest.mark.django_db
def test_a_learners_and_an_authors_login_and_a_token_are_printed_and_work(settings, tmp_path, client):
    settings.VAR_DIR = settings.STATIC_ROOT = tmp_path
    out = io.StringIO()
    call_command("bootstrap", "--people", stdout=out)
    printed = dict(re.findall(r"^(learner|author)\s+\w+ / (\S+)", out.getvalue(), re.MULTILINE))
    token = re.search(r"^token\s+(\S+)", out.getvalue(), re.MULTILINE)
    assert token is not None
    answer = client.get("/api/v1/me/", headers={"Authorization": f"Bearer {token[1]}"})
    assert answer.json()["username"] == "learner"
    assert client.login(username="author", password=printed["author"])
    assert client.get("/admin/quiz/question/").status_code == 200


@pytest.mark.django_db
def test_somebody_elses_account_of_that_name_is_not_made_an_author():
    Learner.objects.create_user(username="author", password="mine alone")
    with pytest.raises(CommandError, match="another password"):
        person("author", "the one we keep", is_staff=True)
    assert not Learner.objects.get().is_staff


def test_passwords_are_kept_for_the_next_start_and_readable_by_one_user(tmp_path):
    first = remembered_passwords(tmp_path / "people.json")
    assert remembered_passwords(tmp_path / "people.json") == first
    assert (tmp_path / "people.json").stat().st_mode & 0o077 == 0
    assert json.loads((tmp_path / "people.json").read_text()) == first
