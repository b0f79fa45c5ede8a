"""A learner's data is handed out whole, and erased so that grades and their record stay without a person."""

import io
import json
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.test import Client

from labs.learner_data import erase_learner, learner_data
from labs.models import Figure, Run, StreamTicket, TaskAttempt
from labs.reflection import explain_run
from labs.streaming.tickets import issue_ticket
from quiz.errors import Conflict
from quiz.models import Grade, GradeChange, Learner
from quiz.services import issue_token, set_manual_grade
from tests.labs.conftest import execute, make_learner, report_for
from tests.labs.test_services import submit
from tests.quiz.builders import make_quiz

NAME = "Adelheid-Ottilie"
WORDS = "My own words, which nobody else would write."


@pytest.fixture
def person(offering) -> Learner:
    learner = make_learner(NAME, offering)
    learner.first_name, learner.last_name, learner.email = NAME, NAME, f"{NAME}@example.org"
    learner.save()
    return learner


@pytest.fixture
def history(person, attempt, offering, simulation) -> Learner:
    """A graded and explained run, a token, a ticket, a grade set by hand, and lines in the admin's log."""
    TaskAttempt.objects.update(learner=person)
    attempt.refresh_from_db()
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    Figure.objects.create(run=run, name="f", position=0, title="F", spec={}, table=[], png=b"")
    explain_run(run=run, text=WORDS)
    issue_ticket(run=run)
    issue_token(learner=person)
    staff = Learner.objects.create_superuser("staff", password="x")
    set_manual_grade(
        learner=person,
        offering=offering,
        activity=attempt.task.activity,
        score="0.5",
        reason=f"{NAME} was ill.",
        by=staff,
    )
    for row in (person, Grade.objects.get(learner=person), run):
        LogEntry.objects.create(
            user=staff,
            content_type=ContentType.objects.get_for_model(row),
            object_id=str(row.pk),
            object_repr=f"{row} of {NAME}",
            action_flag=CHANGE,
            change_message=f"{NAME} changed",
        )
    return person


def everything() -> str:
    """All rows of all tables, as text."""
    rows: list[Any] = []
    for model in apps.get_models():
        if model._meta.managed and not model._meta.proxy:
            fields = [field.attname for field in model._meta.concrete_fields if not binary(field)]
            rows.append([model.__name__, list(model._default_manager.values(*fields))])
    return json.dumps(rows, cls=DjangoJSONEncoder)


def binary(field: models.Field) -> bool:
    return isinstance(field, models.BinaryField)


def test_what_is_handed_out_names_all_that_was_handed_in(history):
    data = json.loads(json.dumps(learner_data(history)))
    (run,) = data["runs"]
    assert (data["learner"]["username"], data["learner"]["email"]) == (NAME, f"{NAME}@example.org")
    assert [row["class"] for row in data["classes"]] == ["open"]
    assert run["explanation"]["text"] == WORDS
    assert run["prediction"] == data["task_attempts"][0]["prediction"]
    assert data["grades"][0]["changes"][-1]["reason"] == f"{NAME} was ill."
    assert len(data["tokens"]) == 1
    assert "report" not in run


def test_reports_are_handed_out_where_asked_for(history):
    assert learner_data(history, reports=True)["runs"][0]["report"]["metrics"]


def test_what_is_hidden_from_an_open_attempt_is_not_handed_out_either(person, attempt):
    TaskAttempt.objects.update(learner=person, draw_seed=8_123_456_789)
    attempt.refresh_from_db()
    submit(attempt)
    data = learner_data(person)
    assert data["runs"][0]["seed"] is None
    assert "checkpoint_seed" not in data["runs"][0]["params"]
    assert "8123456789" not in json.dumps(data)


def test_an_open_quiz_attempt_is_handed_out_without_credit(person, offering):
    from quiz import services

    quiz = make_quiz(offering.course)
    sitting, _ = services.start_attempt(learner=person, quiz=quiz, offering=offering)
    services.save_response(attempt=sitting, position=1, choice="b", confidence=80, sequence=1)
    (found,) = learner_data(person)["quiz_attempts"]
    assert found["responses"][0]["choice"] == "b"
    assert {row["credit"] for row in found["responses"]} == {None}


def test_after_erasing_no_table_knows_the_person(history):
    public_id, changes = str(history.public_id), GradeChange.objects.count()
    assert NAME in everything()
    erase_learner(history)
    left = everything()
    for mark in (NAME, NAME.lower(), WORDS, public_id):
        assert mark not in left
    assert not Run.objects.exists() and not TaskAttempt.objects.exists() and not StreamTicket.objects.exists()
    assert GradeChange.objects.count() == changes


def test_grades_and_who_changed_them_stay(history):
    erase_learner(history)
    grade = Grade.objects.get()
    last = grade.changes.order_by("revision").last()
    assert last is not None and last.changed_by is not None
    assert (str(grade.score), last.changed_by.username, last.reason) == ("0.5000", "staff", "erased")
    assert grade.learner.username.startswith("erased-")


def test_the_erased_are_signed_out_everywhere_and_cannot_come_back(history):
    browser = Client()
    browser.force_login(history)
    assert browser.get("/").status_code == 200
    erase_learner(history)
    assert "/accounts/login/" in browser.get("/labs/")["Location"]
    history.refresh_from_db()
    assert (history.is_active, history.has_usable_password()) == (False, False)


def test_others_keep_all_that_is_theirs(history, offering):
    other = make_learner("eve", offering)
    token = issue_token(learner=other)[0]
    before = learner_data(other)
    erase_learner(history)
    assert learner_data(other) == before
    token.refresh_from_db()


def test_a_run_under_way_is_erased_and_its_worker_told_to_stop(person, attempt):
    TaskAttempt.objects.update(learner=person)
    attempt.refresh_from_db()
    run = submit(attempt)
    assert run.claim(60)
    erase_learner(person)
    assert run.beat(60, (1, 2)) is False


def test_staff_are_not_erased_while_they_are_staff(history):
    Learner.objects.filter(pk=history.pk).update(is_staff=True)
    with pytest.raises(Conflict, match="take that right away first"):
        erase_learner(history)
    assert Run.objects.filter(learner=history).exists()


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_the_commands_take_a_name_in_any_case_or_a_public_id(history, tmp_path):
    file = tmp_path / "data.json"
    assert json.loads(command("export_learner", NAME.upper()))["learner"]["username"] == NAME
    assert "1 run(s)" in command("export_learner", str(history.public_id), "--out", str(file))
    assert json.loads(file.read_text())["runs"]
    assert file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandError, match="File exists"):
        command("export_learner", NAME, "--out", str(file))
    assert "1 runs, 1 task attempts" in command("erase_learner", NAME, "--yes")


def test_the_commands_name_a_learner_that_is_not_there(db):
    with pytest.raises(CommandError, match="learner: there is no 'nobody'"):
        command("export_learner", "nobody")


def test_erasing_asks_first(history):
    with pytest.raises(CommandError, match="say --yes"):
        command("erase_learner", NAME)
    assert Learner.objects.filter(username=NAME).exists()
