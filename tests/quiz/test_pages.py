"""Pages of the course, without a browser: who sees what, what is refused in plain words, what stays hidden."""

import pytest
from django.test import Client

from quiz.models import Attempt, Enrollment, Offering
from quiz.services import record_grade, start_attempt, submit_attempt
from quiz.templatetags.pages import inline_markdown, markdown_from, percent, plain_number
from tests.quiz.builders import SECRET, enrolled, make_course, make_learner


@pytest.fixture
def browser(learner) -> Client:
    client = Client()
    client.force_login(learner)
    return client


@pytest.fixture
def attempt(learner, quiz, offering) -> Attempt:
    return start_attempt(learner=learner, quiz=quiz, offering=offering)[0]


def test_the_door_says_what_this_is_and_offers_to_sign_in(db):
    html = Client().get("/").content.decode()
    assert "Make an account" in html
    assert "Sign in" in html


def test_where_registration_is_closed_no_page_offers_it(db, settings):
    settings.STAFFLOOP_OPEN_REGISTRATION = False
    assert "Make an account" not in Client().get("/").content.decode()
    assert "Make an account" not in Client().get("/accounts/login/").content.decode()
    assert Client().get("/accounts/signup/").status_code == 404


def test_signing_up_signs_in_and_goes_on_to_where_one_was_headed(offering):
    form = {"username": "grace", "password": "violet-turbine-41", "next": "/classes/open/"}
    client = Client()
    reply = client.post("/accounts/signup/", form)
    assert (reply.status_code, reply["Location"]) == (302, "/classes/open/")
    assert client.get("/classes/open/").status_code == 200


def test_signing_up_never_leads_to_another_site(db):
    form = {"username": "grace", "password": "violet-turbine-41", "next": "https://elsewhere.example/"}
    assert Client().post("/accounts/signup/", form)["Location"] == "/"


def test_a_taken_name_is_refused_beside_its_field(learner):
    reply = Client().post("/accounts/signup/", {"username": "ADA", "password": "violet-turbine-41"})
    assert reply.status_code == 400
    assert 'id="id_username_error"' in reply.content.decode()


def test_guessing_a_password_on_the_page_is_slowed_down_and_another_name_is_not(learner):
    client = Client()
    statuses = [
        client.post("/accounts/login/", {"username": "ada", "password": f"guess-{index}"}).status_code
        for index in range(31)
    ]
    assert statuses == [200] * 30 + [429]
    assert client.post("/accounts/login/", {"username": "grace", "password": "guess"}).status_code == 200


def test_accounts_made_on_the_page_and_over_rest_draw_on_one_budget(db, settings):
    settings.THROTTLE_RATES = {**settings.THROTTLE_RATES, "register": (1, 3600)}
    form = {"username": "grace", "password": "violet-turbine-41"}
    assert Client().post("/api/v1/learners/", form, content_type="application/json").status_code == 201
    assert Client().post("/accounts/signup/", form | {"username": "joan"}).status_code == 429


def test_a_class_that_one_is_not_in_and_cannot_join_does_not_exist(browser):
    Offering.objects.create(course=make_course("closed"), slug="private", title="Private")
    for page in ("/classes/private/", "/classes/private/read/opening/", "/classes/private/quizzes/check/"):
        assert browser.get(page).status_code == 404


def test_joining_enrols_once(offering):
    client = Client()
    client.force_login(make_learner("grace"))
    for _ in range(2):
        assert client.post("/classes/open/join/")["Location"] == "/classes/open/"
    assert Enrollment.objects.filter(learner__username="grace").count() == 1


def test_a_zero_is_a_grade_and_shows_as_done(browser, learner, offering, quiz):
    record_grade(learner=learner, offering=offering, activity=quiz.activity, score=0, source="test")
    html = browser.get("/classes/open/").content.decode()
    assert "Done" in html
    assert "0 of 5 points" in html


def test_an_attempt_of_somebody_else_does_not_exist(attempt, offering):
    client = Client()
    client.force_login(enrolled(make_learner("grace"), offering))
    assert client.get(f"/attempts/{attempt.public_id}/").status_code == 404
    assert client.post(f"/attempts/{attempt.public_id}/", {"action": "submit-anyway"}).status_code == 404
    attempt.refresh_from_db()
    assert attempt.state == Attempt.State.OPEN


def test_no_page_before_submission_holds_a_key_or_an_explanation(browser, attempt):
    for page in ("/", "/classes/open/", "/classes/open/quizzes/check/", f"/attempts/{attempt.public_id}/"):
        assert SECRET not in browser.get(page).content.decode()


def test_the_result_holds_explanation_points_and_the_feedback_of_the_chosen_option_alone(browser, attempt):
    form = {"choice-1": "a", "choice-2": "b", "confidence-1": "95", "action": "submit"}
    browser.post(f"/attempts/{attempt.public_id}/", form)
    html = browser.get(f"/attempts/{attempt.public_id}/").content.decode()
    assert "50%" in html
    assert f"{SECRET} explanation" in html
    assert f"{SECRET} point" in html
    assert f"{SECRET} feedback a" in html
    assert f"{SECRET} feedback c" not in html


def test_submitting_with_gaps_asks_first_and_keeps_the_answers(browser, attempt):
    reply = browser.post(f"/attempts/{attempt.public_id}/", {"choice-1": "b", "action": "submit"})
    assert "1 question without an answer" in reply.content.decode()
    attempt.refresh_from_db()
    assert attempt.state == Attempt.State.OPEN
    assert attempt.responses.get(position=1).choice == "b"


def test_an_option_that_is_none_of_the_question_is_refused_at_the_question(browser, attempt):
    reply = browser.post(f"/attempts/{attempt.public_id}/", {"choice-1": "z", "action": "submit-anyway"})
    assert reply.status_code == 409
    assert 'href="#question-1"' in reply.content.decode()
    attempt.refresh_from_db()
    assert attempt.state == Attempt.State.OPEN


def test_a_confidence_given_over_rest_stays_when_the_form_is_saved(browser, attempt):
    attempt.responses.filter(position=1).update(choice="b", confidence=60, sequence=1)
    html = browser.get(f"/attempts/{attempt.public_id}/").content.decode()
    assert 'value="60" checked' in html


def test_a_used_up_quiz_says_so_and_offers_no_start(browser, learner, quiz, offering):
    for _ in range(quiz.attempts_allowed):
        submit_attempt(attempt=start_attempt(learner=learner, quiz=quiz, offering=offering)[0])
    html = browser.get("/classes/open/quizzes/check/").content.decode()
    assert "attempts are used" in html
    assert "Start attempt" not in html
    follow = browser.post("/classes/open/quizzes/check/", follow=True)
    assert "are used" in follow.content.decode()


def test_a_missing_page_is_plain_words_and_a_missing_resource_a_problem_document(db):
    assert "There is no such page" in Client().get("/nowhere/").content.decode()
    reply = Client().get("/api/nowhere/")
    assert (reply.status_code, reply["Content-Type"]) == (404, "application/problem+json")


def test_a_stale_form_is_explained(db):
    client = Client(enforce_csrf_checks=True)
    reply = client.post("/accounts/signup/", {"username": "grace"})
    assert reply.status_code == 403
    assert "This form is out of date" in reply.content.decode()


def test_a_fault_of_ours_is_plain_words_on_a_page_and_a_problem_document_under_the_api(
    db, browser, monkeypatch
):
    def broken(**_):
        raise RuntimeError("no")

    monkeypatch.setattr("quiz.services.visible_offerings", broken)
    monkeypatch.setattr("quiz.api.courses.services.visible_offerings", broken)
    browser.raise_request_exception = False
    page = browser.get("/classes/open/")
    assert page.status_code == 500
    assert "broke on our side" in page.content.decode()
    api = browser.get("/api/v1/offerings/")
    assert (api.status_code, api["Content-Type"]) == (500, "application/problem+json")


def test_every_page_behind_the_door_asks_to_sign_in(quiz, attempt):
    for page in (
        "/classes/open/",
        "/classes/open/quizzes/check/",
        f"/attempts/{attempt.public_id}/",
        "/labs/",
    ):
        assert Client().get(page)["Location"].startswith("/accounts/login/?next=")


@pytest.mark.parametrize(
    ("text", "level", "html"),
    [
        ("### A\n\n#### B", 2, "<h2>A</h2>\n<h3>B</h3>\n"),
        ("# A", 3, "<h3>A</h3>\n"),
        ("plain", 2, "<p>plain</p>\n"),
        ("###### A\n\n# B", 5, "<h6>A</h6>\n<h5>B</h5>\n"),
    ],
)
def test_headings_of_a_text_begin_where_the_page_needs_them(text, level, html):
    assert markdown_from(text, level) == html


def test_a_line_of_markdown_holds_neither_script_nor_link():
    html = inline_markdown("`a` *b* <script>x</script> [c](https://example.org)")
    assert "<code>a</code> <em>b</em>" in html
    assert "<script" not in html
    assert "<a" not in html


def test_numbers_lose_needless_zeros():
    assert (plain_number("10.00"), plain_number("7.50"), plain_number("10")) == ("10", "7.5", "10")
    assert (percent(0.6), percent("0.8125"), percent(0)) == ("60%", "81.25%", "0%")
