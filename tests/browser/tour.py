"""One learner who has done a bit of everything, and the pages that this person can see."""

from dataclasses import dataclass
from typing import Literal

from playwright.sync_api import Page, expect

from tests.browser.conftest import SLOW
from tests.browser.test_lab import balance, open_attempt, predict
from tests.browser.test_quiz import start


@dataclass(frozen=True)
class Tour:
    cookies: list
    run: str  # path of a graded run's page, its figures drawn
    pages: dict[str, str]  # name → path, for the person signed in
    public: dict[str, str]  # for anyone


def take_tour(page: Page) -> Tour:
    pages = {
        "home": "/",
        "course": "/classes/open/",
        "section": "/classes/open/read/experts/",
        "quiz": "/classes/open/quizzes/check/",
        "task": "/labs/classes/open/tasks/moe-balance-hbm/",
        "labs": "/labs/",
        "lab": "/labs/moe-eplb/",
        "not-found": "/nowhere/",
    }
    start(page)
    page.locator("[name=choice-1]").first.check()
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("dialog").get_by_role("button", name="Submit anyway").click()
    page.get_by_role("heading", name="your result").wait_for()
    pages["quiz-result"] = path(page)
    start(page)
    pages["quiz-attempt"] = path(page)
    open_attempt(page, "Practise")
    pages["task-attempt"] = path(page)
    page.goto("/labs/classes/open/tasks/moe-place-it/")
    page.get_by_role("button", name="Practise").click()
    page.locator("staffloop-placement .gpus").first.wait_for(timeout=SLOW)
    pages["placement"] = path(page)
    open_attempt(page)
    predict(page)
    balance(page)
    page.get_by_role("button", name="Run").click()
    page.locator("staffloop-figure").first.wait_for(timeout=SLOW)
    pages["run"] = path(page)
    page.get_by_label("Your explanation").fill("The busiest expert had one home only.")
    page.get_by_role("button", name="Hand in").click()
    page.get_by_role("group", name="Points of the staff answer").wait_for()
    vary(page)
    pages["variation"] = path(page)
    pages["what-if"] = f"{pages['run']}what-if/?parameter=eplb_policy"
    public = {"welcome": "/", "login": "/accounts/login/", "signup": "/accounts/signup/"}
    return Tour(page.context.cookies(), pages["run"], pages, public)


def vary(page: Page) -> None:
    """Repeat the run with another window, and wait for both runs' figures."""
    before = page.url
    page.get_by_label("Parameter").select_option("window_steps")
    page.locator("#what-if-step").get_by_label("Window steps").fill("2")
    page.get_by_role("button", name="Run the variation").click()
    page.wait_for_url(lambda url: url != before)
    page.locator(".pair staffloop-figure").first.wait_for(timeout=SLOW)


def path(page: Page) -> str:
    return "/" + page.url.split("/", 3)[3]


def look_at_everything(page: Page) -> None:
    """Scroll through the page, so that every chart comes into view and is drawn."""
    for figure in page.locator("staffloop-figure").all():
        figure.scroll_into_view_if_needed()
        figure.locator(".chart:not(.pending) svg:not([data-old])").wait_for()
    if page.locator("staffloop-sweep form").count():
        page.locator("staffloop-sweep").scroll_into_view_if_needed()
        expect(page.locator("staffloop-sweep .chart svg:not([data-old])")).to_have_count(2)


def change_scheme(page: Page, scheme: Literal["light", "dark"]) -> None:
    """To the other one. The charts that stand there are marked: all are drawn anew."""
    page.evaluate("document.querySelectorAll('.chart svg').forEach((one) => { one.dataset.old = ''; })")
    page.emulate_media(color_scheme=scheme)
