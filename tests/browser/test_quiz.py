"""The five questions: saved as one goes, refused when stale, marked at the end, and all of it without script too."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Held

SECRET_WORDS = ("correct_choice", "Right answer", "staff engineer's answer", "feedback")


def start(page: Page) -> None:
    page.goto("/classes/open/")
    page.get_by_role("link", name="five questions").click()
    page.get_by_role("button", name="Start attempt").click()
    expect(page.locator("[data-answered]")).to_be_visible()


def choose(page: Page, position: int, nth: int = 0) -> None:
    page.locator(f"[name=choice-{position}]").nth(nth).check()


def saved(page: Page) -> None:
    expect(page.get_by_text("All answers saved")).to_be_visible()


def test_answers_are_counted_live_and_saved_as_they_are_given(page: Page) -> None:
    start(page)
    expect(page.get_by_text("0 / 5 answered")).to_be_visible()
    choose(page, 2, nth=1)
    page.locator("[name=confidence-2]").nth(2).check()
    expect(page.get_by_text("1 / 5 answered")).to_be_visible()
    saved(page)
    page.reload()
    expect(page.locator("[name=choice-2]").nth(1)).to_be_checked()
    expect(page.locator("[name=confidence-2]").nth(2)).to_be_checked()


def test_the_page_holds_no_key_before_submission(page: Page) -> None:
    start(page)
    source = page.content()
    assert not [word for word in SECRET_WORDS if word in source]


def test_a_stale_tab_is_refused_and_shows_the_later_answer(page: Page) -> None:
    start(page)
    other = page.context.new_page()
    other.goto(page.url)
    choose(other, 1, nth=2)
    saved(other)
    # A click: the page may show the stored answer before one could see this one checked.
    page.locator("[name=choice-1]").first.click()
    expect(page.get_by_text("Answered in another window")).to_be_visible()
    expect(page.locator("[name=choice-1]").nth(2)).to_be_checked()
    # The next answer of the same tab counts again.
    choose(page, 1, nth=1)
    saved(page)
    other.reload()
    expect(other.locator("[name=choice-1]").nth(1)).to_be_checked()


def test_an_answer_is_sent_again_after_the_network_failed(page: Page) -> None:
    start(page)
    away = True

    def network(route):
        route.abort() if away else route.continue_()

    page.route("**/responses/**", network)
    choose(page, 3)
    expect(page.get_by_text("trying again")).to_be_visible()
    away = False
    saved(page)


def test_an_answer_given_before_the_module_has_loaded_is_saved_too(page: Page) -> None:
    module = Held(page, "**/quiz.*.js")
    page.goto("/classes/open/")
    page.get_by_role("link", name="five questions").click()
    page.get_by_role("button", name="Start attempt").click(no_wait_after=True)
    page.locator("[name=choice-2]").first.check()
    module.nth(0).continue_()
    saved(page)


def test_the_page_says_that_all_is_saved_only_when_nothing_is_left_to_send(page: Page) -> None:
    start(page)
    writes = Held(page, "**/responses/**")
    choose(page, 4)
    first = writes.nth(0)
    page.locator("[name=confidence-4]").nth(1).check()
    first.continue_()
    second = writes.nth(1)
    expect(page.locator("[data-saved]")).to_have_text("Saving …")
    second.continue_()
    saved(page)


def test_submitting_with_gaps_asks_first_and_going_back_leads_to_the_gap(page: Page) -> None:
    start(page)
    for position in (1, 2, 4, 5):
        choose(page, position)
    page.get_by_role("button", name="Submit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Question 3 has no answer yet")
    dialog.get_by_role("button", name="Go back").click()
    expect(page.locator("[name=choice-3]").first).to_be_focused()


def test_the_result_marks_every_question_and_explains_it(page: Page) -> None:
    start(page)
    for position in range(1, 5):
        choose(page, position, nth=position % 2)
    page.locator("[name=confidence-1]").nth(3).check()
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("dialog").get_by_role("button", name="Submit anyway").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("your result")
    expect(page.get_by_text(re.compile("You were 95% sure on average"))).to_be_visible()
    for position in range(1, 6):
        question = page.locator(f"section[aria-labelledby=question-{position}]")
        expect(question.get_by_role("heading", level=2)).to_contain_text(
            re.compile("Correct|Incorrect|Not answered")
        )
        expect(question.get_by_text("Right answer")).to_be_visible()
        expect(question.get_by_text("A staff engineer's answer names")).to_be_visible()
    page.get_by_role("link", name="Balance within an HBM budget").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Balance within an HBM budget")


def test_without_script_the_form_saves_asks_about_gaps_and_submits(plain_page: Page) -> None:
    start(plain_page)
    choose(plain_page, 1, nth=1)
    plain_page.get_by_role("button", name="Save").click()
    expect(plain_page.get_by_text("Your answers are saved")).to_be_visible()
    expect(plain_page.locator("[name=choice-1]").nth(1)).to_be_checked()
    plain_page.get_by_role("button", name="Submit").click()
    expect(plain_page.get_by_role("alert")).to_contain_text("4 questions without an answer")
    plain_page.get_by_role("alert").get_by_role("button", name="Submit anyway").click()
    expect(plain_page.get_by_role("heading", level=1)).to_contain_text("your result")


def test_without_script_a_stale_form_is_refused_too(plain_page: Page) -> None:
    start(plain_page)
    other = plain_page.context.new_page()
    other.goto(plain_page.url)
    choose(other, 1, nth=2)
    other.get_by_role("button", name="Save").click()
    choose(plain_page, 1, nth=0)
    plain_page.get_by_role("button", name="Save").click()
    expect(plain_page.get_by_role("alert")).to_contain_text("Question 1 was answered in another window")
    expect(plain_page.locator("[name=choice-1]").nth(2)).to_be_checked()
