"""Authors write, preview and publish; staff grade by hand. The stock admin under the strict CSP."""

import re

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from quiz import services
from quiz.models import Grade, Learner, Question, QuestionVersion
from tests.quiz.builders import SECRET, make_draft, make_learner, publish

VERSION = "admin:quiz_questionversion"


@pytest.fixture
def author(db) -> Client:
    client = Client()
    client.force_login(Learner.objects.create_superuser("author", password="x"))
    return client


@pytest.fixture
def question(db) -> Question:
    return Question.objects.create(slug="kv")


def option(key, *, correct=False, text="Some text", feedback="Because.", pk=""):
    return {"key": key, "text": text, "feedback": feedback, "id": pk} | ({"correct": "on"} if correct else {})


def form_of(question, options, *, stored=0, pk="", **values):
    data = {
        "question": question.pk,
        "stem": "Which?",
        "explanation": "Because.",
        "staff_points": "First point\n\nSecond point\n",
        "options-TOTAL_FORMS": len(options),
        "options-INITIAL_FORMS": stored,
        "options-MIN_NUM_FORMS": 2,
        "options-MAX_NUM_FORMS": 1000,
    } | values
    for index, values_of_option in enumerate(options):
        data |= {f"options-{index}-{name}": value for name, value in values_of_option.items()}
        data[f"options-{index}-version"] = pk
    return data


def errors_on(answer):
    assert answer.status_code == 200
    forms = [answer.context["adminform"].form, *answer.context["inline_admin_formsets"][0].formset.forms]
    by_field = {name: list(texts) for form in forms for name, texts in form.errors.items()}
    whole = list(answer.context["inline_admin_formsets"][0].formset.non_form_errors())
    return by_field | ({"options": whole} if whole else {})


def two_options(**second):
    return [option("a", correct=True), option("b", **second)]


def test_an_author_writes_a_question_with_its_options(author, question):
    answer = author.post(reverse(f"{VERSION}_add"), form_of(question, two_options()))
    assert answer.status_code == 302
    version = QuestionVersion.objects.get()
    assert (version.number, version.is_published) == (1, False)
    assert version.staff_points == ["First point", "Second point"]
    assert list(version.options.values_list("key", "correct")) == [("a", True), ("b", False)]


@pytest.mark.parametrize(
    ("options", "field", "text"),
    [
        ([option("a"), option("b")], "options", "exactly one option must be correct, not 0"),
        (
            [option("a", correct=True), option("b", correct=True)],
            "options",
            "exactly one option must be correct",
        ),
        ([option("a", correct=True)], "options", "at least two"),
        (two_options(feedback=""), "feedback", "Every option needs feedback"),
        (two_options(feedback="   "), "feedback", "Every option needs feedback"),
        (two_options(text=""), "text", "required"),
        ([option("a", correct=True), option("a")], "options", "duplicate"),
        ([option("a", correct=True), option("?")], "key", "one small letter"),
    ],
)
def test_what_is_wrong_with_options_is_said_at_the_field(author, question, options, field, text):
    found = errors_on(author.post(reverse(f"{VERSION}_add"), form_of(question, options)))
    assert any(text in message for message in found[field]), found
    assert not QuestionVersion.objects.exists()


@pytest.mark.parametrize("field", ["stem", "explanation"])
def test_a_missing_text_is_said_at_the_field(author, question, field):
    found = errors_on(
        author.post(reverse(f"{VERSION}_add"), form_of(question, two_options(), **{field: " "}))
    )
    assert field in found


def test_a_second_draft_of_a_question_is_refused_at_the_question(author, question):
    make_draft(question)
    found = errors_on(author.post(reverse(f"{VERSION}_add"), form_of(question, two_options())))
    assert "has a draft already" in found["question"][0]


def test_the_right_answer_and_the_keys_may_change_places(author, question):
    draft = make_draft(question)
    by_key = {o.key: o.pk for o in draft.options.all()}
    options = [
        option("b", text="was a", pk=by_key["a"]),
        option("a", text="was b", pk=by_key["b"]),
        option("c", text="was c", pk=by_key["c"], correct=True),
    ]
    answer = author.post(
        reverse(f"{VERSION}_change", args=[draft.pk]), form_of(question, options, stored=3, pk=draft.pk)
    )
    assert answer.status_code == 302, errors_on(answer)
    assert list(draft.options.values_list("key", "text", "correct")) == [
        ("a", "was b", False),
        ("b", "was a", False),
        ("c", "was c", True),
    ]


def test_an_option_may_be_deleted_from_a_draft(author, question):
    draft = make_draft(question)
    by_key = {o.key: o.pk for o in draft.options.all()}
    options = [
        option("a", pk=by_key["a"]),
        option("b", pk=by_key["b"], correct=True),
        option("c", pk=by_key["c"]) | {"DELETE": "on"},
    ]
    author.post(
        reverse(f"{VERSION}_change", args=[draft.pk]), form_of(question, options, stored=3, pk=draft.pk)
    )
    assert list(draft.options.values_list("key", flat=True)) == ["a", "b"]


def test_the_preview_shows_what_a_learner_sees_rendered_and_clean(author, question):
    draft = make_draft(question, stem="**Which** <script>alert(1)</script>?")
    page = author.get(reverse(f"{VERSION}_preview", args=[draft.pk])).content.decode()
    assert "<strong>Which</strong>" in page
    assert "<script>alert" not in page
    assert f"{SECRET} feedback a" in page


def test_publishing_from_the_preview_makes_the_version_immutable(author, question):
    draft = make_draft(question)
    author.post(reverse(f"{VERSION}_publish", args=[draft.pk]))
    draft.refresh_from_db()
    assert draft.is_published
    change = reverse(f"{VERSION}_change", args=[draft.pk])
    assert author.post(change, form_of(question, two_options(), pk=draft.pk, stem="Other")).status_code == 403
    assert author.post(reverse(f"{VERSION}_delete", args=[draft.pk]), {"post": "yes"}).status_code == 403
    page = author.get(change).content.decode()
    assert "<textarea" not in page
    assert "Option b" in page


def test_publishing_an_incomplete_draft_says_what_is_missing(author, question):
    draft = make_draft(question)
    draft.options.filter(key="c").update(feedback="")
    page = author.post(reverse(f"{VERSION}_publish", args=[draft.pk]), follow=True).content.decode()
    assert "options/2/feedback: every option needs feedback" in page
    draft.refresh_from_db()
    assert not draft.is_published


def test_drafts_are_published_by_the_action_and_published_ones_are_reported(author, question):
    published, draft = publish(question), make_draft(question, number=2)
    page = author.post(
        reverse(f"{VERSION}_changelist"),
        {"action": "publish_selected", "_selected_action": [published.pk, draft.pk]},
        follow=True,
    ).content.decode()
    draft.refresh_from_db()
    assert draft.is_published
    assert "is published already" in page


def test_deleting_by_the_action_spares_published_versions(author, question):
    published = publish(question)
    author.post(
        reverse(f"{VERSION}_changelist"),
        {"action": "delete_selected", "_selected_action": [published.pk], "post": "yes"},
    )
    assert QuestionVersion.objects.filter(pk=published.pk).exists()


def test_editing_a_published_version_opens_the_next_draft(author, question):
    published = publish(question)
    answer = author.post(reverse(f"{VERSION}_edit", args=[published.pk]))
    draft = QuestionVersion.objects.get(number=2)
    assert answer["Location"] == reverse(f"{VERSION}_change", args=[draft.pk])
    assert draft.options.count() == 3


def test_publishing_and_editing_want_a_post_and_permission(author, question):
    draft = make_draft(question)
    looker = Client()
    looker.force_login(make_learner("looker", is_staff=True))
    for name in ("publish", "edit"):
        path = reverse(f"{VERSION}_{name}", args=[draft.pk])
        assert author.get(path).status_code == 405
        assert looker.post(path).status_code == 403
    assert looker.get(reverse(f"{VERSION}_preview", args=[draft.pk])).status_code == 403
    draft.refresh_from_db()
    assert not draft.is_published


def grade_form(**values):
    inlines = {"changes-TOTAL_FORMS": 0, "changes-INITIAL_FORMS": 0}
    return {"score": "0.4", "reason": "Agreed in person."} | inlines | values


def test_a_grade_is_set_by_hand_with_a_reason_and_recorded(author, learner, offering, quiz):
    grade = services.record_grade(
        learner=learner, offering=offering, activity=quiz.activity, score=1, source="a test"
    )
    author.post(reverse("admin:quiz_grade_change", args=[grade.pk]), grade_form())
    grade.refresh_from_db()
    assert (float(grade.score), grade.manual, grade.revision) == (0.4, True, 2)
    change = grade.changes.get(revision=2)
    assert (str(change.changed_by), change.reason) == ("author", "Agreed in person.")


def test_a_grade_can_be_given_where_there_was_none(author, learner, offering, quiz):
    data = grade_form(learner=learner.pk, offering=offering.pk, activity=quiz.activity.pk)
    assert author.post(reverse("admin:quiz_grade_add"), data).status_code == 302
    assert Grade.objects.get().changes.get().old_score is None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"reason": " "}, "reason"),
        ({"score": "1.2"}, "score"),
        ({"score": "NaN"}, "score"),
        ({"score": "-0.1"}, "score"),
    ],
)
def test_a_bad_override_is_refused_at_its_field(author, learner, offering, quiz, values, field):
    grade = services.record_grade(
        learner=learner, offering=offering, activity=quiz.activity, score=1, source="a test"
    )
    answer = author.post(reverse("admin:quiz_grade_change", args=[grade.pk]), grade_form(**values))
    assert field in answer.context["adminform"].form.errors
    grade.refresh_from_db()
    assert grade.revision == 1


def test_a_grade_for_somebody_outside_the_class_is_refused(author, offering, quiz):
    data = grade_form(learner=make_learner("bo").pk, offering=offering.pk, activity=quiz.activity.pk)
    answer = author.post(reverse("admin:quiz_grade_add"), data)
    assert "learner" in answer.context["adminform"].form.errors


@pytest.mark.parametrize("name", ["gradechange", "attempt"])
def test_records_are_there_to_look_at_only(author, learner, offering, quiz, name):
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    services.submit_attempt(attempt=attempt)
    pk = {"gradechange": Grade.objects.get().changes.get().pk, "attempt": attempt.pk}[name]
    for verb, args in (("add", []), ("change", [pk]), ("delete", [pk])):
        assert (
            author.post(reverse(f"admin:quiz_{name}_{verb}", args=args), {"post": "yes"}).status_code == 403
        )
    assert author.get(reverse(f"admin:quiz_{name}_change", args=[pk])).status_code == 200


def pages_of_the_admin(quiz):
    """Every list, form and search of the app."""
    for model, registered in admin.site._registry.items():
        if model._meta.app_label == "quiz":
            base = f"admin:quiz_{model._meta.model_name}"
            yield reverse(f"{base}_changelist")
            yield reverse(f"{base}_changelist") + "?q=a"
            yield reverse(f"{base}_add")
            row = registered.model._default_manager.first()
            if row is not None:
                yield reverse(f"{base}_change", args=[row.pk])
    yield reverse(f"{VERSION}_preview", args=[QuestionVersion.objects.filter(number=1)[0].pk])


def test_every_page_opens_and_holds_nothing_that_the_csp_forbids(author, learner, offering, quiz):
    attempt, _ = services.start_attempt(learner=learner, quiz=quiz, offering=offering)
    services.submit_attempt(attempt=attempt)
    inline = re.compile(
        r"<script(?![^>]*\ssrc=)(?![^>]*application/json)[^>]*>|\son[a-z]+=\"|\sstyle=\"|<style"
    )
    for path in pages_of_the_admin(quiz):
        answer = author.get(path)
        readonly = path.endswith("/add/") and answer.status_code == 403
        assert readonly or answer.status_code == 200, path
        assert not inline.findall(answer.content.decode()), path
        assert "script-src 'self'" in answer["Content-Security-Policy"]
