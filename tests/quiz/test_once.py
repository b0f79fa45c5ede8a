"""A page's form that is sent twice is carried out once."""

import threading
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile
from django.db import connection
from django.http import HttpResponseRedirect
from django.template import Context, Template
from django.test import RequestFactory

from quiz.errors import Conflict
from quiz.models import KeyedAnswer, Learner
from quiz.views.once import redirect_once
from tests.quiz.builders import make_learner


class Deed:
    """What a form does: makes the next thing, and leads to it."""

    def __init__(self, *refusals: Exception) -> None:
        self.done, self.refusals = 0, list(refusals)

    def __call__(self) -> str:
        if self.refusals:
            raise self.refusals.pop()
        self.done += 1
        return f"/things/{self.done}/"


def send(learner: Learner, deed: Any, **form: Any) -> HttpResponseRedirect:
    request = RequestFactory().post("/make/", {"once": "token", "size": "1"} | form)
    request.user = learner
    return redirect_once(request, deed)


@pytest.fixture
def learner(db) -> Learner:
    return make_learner("ada")


def test_the_second_time_leads_to_what_the_first_one_made(learner):
    deed = Deed()
    assert [send(learner, deed).url for _ in range(2)] == ["/things/1/", "/things/1/"]
    assert deed.done == 1


@pytest.mark.parametrize(
    "form",
    [{"once": "another"}, {"size": "2"}, {"once": ""}, {"file": SimpleUploadedFile("a.txt", b"other")}],
)
def test_another_token_other_values_or_no_token_are_another_intent(learner, form):
    deed = Deed()
    send(learner, deed, file=SimpleUploadedFile("a.txt", b"first"))
    assert send(learner, deed, **form).url == "/things/2/"


def test_a_chosen_file_is_still_there_to_be_read(learner):
    request = RequestFactory().post("/make/", {"once": "token", "file": SimpleUploadedFile("a", b"text")})
    request.user = learner
    file = request.FILES["file"]
    assert isinstance(file, UploadedFile)
    assert redirect_once(request, lambda: file.read().decode()).url == "text"


def test_a_token_of_another_learner_counts_for_nothing(learner):
    deed = Deed()
    send(learner, deed)
    assert send(make_learner("eve"), deed).url == "/things/2/"


def test_a_refusal_passes_and_the_form_can_be_sent_again(learner):
    deed = Deed(Conflict("Not now."))
    with pytest.raises(Conflict):
        send(learner, deed)
    assert not KeyedAnswer.objects.exists()
    assert send(learner, deed).url == "/things/1/"


@pytest.mark.django_db(transaction=True)
def test_a_double_click_waits_for_the_first_and_follows_it():
    learner, begun, go_on, deed = make_learner("ada"), threading.Event(), threading.Event(), Deed()
    urls: list[str] = []

    def slowly() -> str:
        begun.set()
        assert go_on.wait(10)
        return deed()

    def click(call: Any) -> None:
        urls.append(send(learner, call).url)
        connection.close()

    first = threading.Thread(target=click, args=(slowly,))
    first.start()
    assert begun.wait(10)
    second = threading.Thread(target=click, args=(deed,))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert (urls, deed.done) == (["/things/1/", "/things/1/"], 1)


def test_the_tag_makes_a_new_token_each_time():
    template = Template("{% load pages %}{% once %}")
    fields = {template.render(Context()) for _ in range(5)}
    assert len(fields) == 5
    assert all(field.startswith('<input type="hidden" name="once" value="') for field in fields)
