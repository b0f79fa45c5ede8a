import pytest

from quiz import services
from quiz.errors import Conflict, InvalidInput
from quiz.models import Question
from tests.quiz.builders import make_draft, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def draft():
    return make_draft(Question.objects.create(slug="kv"))


def test_a_published_version_and_its_options_never_change(draft):
    services.publish_question(version=draft)
    option = draft.options.get(key="a")
    for change in (draft.save, draft.delete, option.save, option.delete):
        with pytest.raises(Conflict):
            change()


def test_publishing_twice_is_refused(draft):
    services.publish_question(version=draft)
    with pytest.raises(Conflict):
        services.publish_question(version=draft)


def test_editing_what_is_published_begins_the_next_version_as_a_copy(draft):
    services.publish_question(version=draft)
    copy = services.start_draft(question=draft.question)
    assert (copy.number, copy.is_published, copy.stem) == (2, False, draft.stem)
    fields = ("key", "text", "correct", "feedback")
    assert list(copy.options.values(*fields)) == list(draft.options.values(*fields))


def test_there_is_one_draft_at_a_time(draft):
    assert services.start_draft(question=draft.question) == draft


def test_a_draft_published_after_a_newer_version_becomes_the_newest(draft):
    newer = make_published_beside(draft)
    services.publish_question(version=draft)
    assert draft.number == newer.number + 1
    assert draft.question.current_version() == draft


def make_published_beside(draft):
    """As the loader does: published without ever being the draft."""
    from django.utils import timezone

    return draft.question.versions.create(
        number=2, stem="s", explanation="e", published_at=timezone.now(), staff_points=[]
    )


@pytest.mark.parametrize(
    ("spoil", "pointer"),
    [
        (lambda v: v.options.all().delete(), "/options"),
        (lambda v: v.options.filter(correct=True).update(correct=False), "/options"),
        (lambda v: v.options.filter(key="c").update(feedback=" "), "/options/2/feedback"),
        (lambda v: v.options.filter(key="a").update(text=""), "/options/0/text"),
        (lambda v: v.question.versions.update(stem=""), "/stem"),
        (lambda v: v.question.versions.update(explanation=" "), "/explanation"),
        (lambda v: v.question.versions.update(staff_points=["", 3]), "/staff_points"),
    ],
)
def test_an_incomplete_draft_is_not_published_and_the_field_is_named(draft, spoil, pointer):
    spoil(draft)
    with pytest.raises(InvalidInput) as caught:
        services.publish_question(version=draft)
    assert pointer in [found for found, _ in caught.value.errors]
    draft.refresh_from_db()
    assert not draft.is_published


def test_the_newest_published_version_is_current():
    question = Question.objects.create(slug="kv")
    publish(question)
    newest = publish(question, number=2)
    make_draft(question, number=3)
    assert question.current_version() == newest
