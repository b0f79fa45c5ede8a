"""An author offers a trace to everyone and makes one a lab's default."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from labs.management.commands.bootstrap import make_author_group
from labs.models import Trace, TraceFile
from labs.traces import offer_trace
from quiz.models import Learner
from tests.labs.conftest import make_learner
from tests.labs.trace_files import held, names_in, ready, session

LIST = "/admin/labs/trace/"


@pytest.fixture
def author(client: Any, db: None) -> Any:
    """Staff in the group of authors, with no other right."""
    from django.contrib.auth.models import Group

    make_author_group()
    person = Learner.objects.create_user("author", is_staff=True)
    person.groups.add(Group.objects.get(name="Authors"))
    client.force_login(person)
    return client


def upload(author: Any, data: bytes, name: str = "for all") -> Any:
    return author.post(
        f"{LIST}add/", {"name": name, "upload": SimpleUploadedFile("x.jsonl", data)}, follow=True
    )


def test_an_author_uploads_a_trace_for_everyone_and_a_worker_checks_it(
    author, messages, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        page = upload(author, session())
    trace = Trace.objects.get()
    assert (page.status_code, trace.is_offered, trace.name) == (200, True, "for all")
    assert messages == [("labs.check_trace", trace.file_id)]
    shown = author.get(f"{LIST}{trace.pk}/change/").content.decode()
    assert trace.file.digest in shown and "Being checked" in shown


def test_a_trace_that_is_offered_already_keeps_its_row(author):
    upload(author, session())
    page = upload(author, session(), "again")
    assert Trace.objects.get().name == "for all"
    assert "This file is offered already, as for all." in page.content.decode()


@pytest.mark.parametrize("data", [b"", b"x" * 101])
def test_an_empty_and_a_large_file_are_refused_beside_the_field(author, data, settings, stored):
    settings.TRACE_LIMIT_BYTES = 100
    page = upload(author, data)
    assert "errorlist" in page.content.decode()
    assert (Trace.objects.count(), names_in(stored)) == (0, [])


def test_a_learners_trace_is_read_and_offered_but_neither_changed_nor_deleted(author, learner):
    mine = ready(learner)
    page = author.get(f"{LIST}{mine.pk}/change/")
    assert page.status_code == 200 and b'name="name"' not in page.content
    assert author.post(f"{LIST}{mine.pk}/delete/", {"post": "yes"}).status_code == 403
    author.post(LIST, {"action": "offer", "_selected_action": [mine.pk]})
    assert [trace.name for trace in Trace.objects.offered()] == ["mine.jsonl"]
    assert TraceFile.objects.count() == 1


def test_what_is_not_ready_is_not_offered(author, learner):
    waiting = held(learner)
    page = author.post(LIST, {"action": "offer", "_selected_action": [waiting.pk]}, follow=True)
    assert "is not ready and was not offered" in page.content.decode()
    assert not Trace.objects.offered().exists()


def test_an_offered_trace_is_deleted_with_its_file(author, stored, django_capture_on_commit_callbacks):
    upload(author, session())
    with django_capture_on_commit_callbacks(execute=True):
        author.post(f"{LIST}{Trace.objects.get().pk}/delete/", {"post": "yes"})
    assert (TraceFile.objects.count(), names_in(stored)) == (0, [])


def save_default(author: Any, lab: Any, trace: Trace | None) -> Any:
    form = {"slug": lab.slug, "title": lab.title, "summary": "", "default_trace": trace.pk if trace else ""}
    return author.post(f"/admin/labs/lab/{lab.pk}/change/", form)


def test_a_ready_offered_trace_becomes_the_labs_default_and_is_protected(author, traced, learner):
    offered = offer_trace(file=ready(learner).file, name="for all")
    assert save_default(author, traced, offered).status_code == 302
    traced.refresh_from_db()
    assert traced.default_trace == offered
    kept = author.post(f"{LIST}{offered.pk}/delete/", {"post": "yes"})
    assert "protected" in kept.content.decode()
    assert Trace.objects.filter(pk=offered.pk).exists()


def test_neither_a_learners_trace_nor_one_that_is_not_ready_becomes_a_default(author, traced, learner):
    for trace in (ready(learner), held(None, session("unchecked"))):
        page = save_default(author, traced, trace)
        assert "Select a valid choice" in page.content.decode()


def test_a_lab_that_takes_no_trace_gets_no_default(author, lab, learner):
    offered = offer_trace(file=ready(learner).file, name="for all")
    page = save_default(author, lab, offered)
    assert "This lab takes no recorded trace." in page.content.decode()


def test_the_list_opens_and_is_searched_by_hash(author, learner):
    mine = ready(learner)
    ready(make_learner_of("eve", learner), session("b"), "hers")
    page = author.get(LIST, {"q": mine.file.digest}).content.decode()
    assert "mine.jsonl" in page and "hers" not in page


def make_learner_of(name: str, like: Learner) -> Learner:
    return make_learner(name, like.enrollments.get().offering)
