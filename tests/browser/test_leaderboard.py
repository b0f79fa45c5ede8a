"""A leaderboard: entered after a real graded run, ranked by a real final run; with script, without, on a phone."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import ROOT, SLOW, Held, load_until, newcomer, open_context
from tests.browser.test_lab import TASK, balance, busy_worker, open_attempt, predict
from tests.journeys.conftest import Site

SWITCH = """
from labs.models import LabTask
LabTask.objects.filter(activity__slug="moe-balance-hbm").update(
    leaderboard={on}, leaderboard_metric="max_over_mean_mean", leaderboard_better="less")
"""
PHONE = {"width": 360, "height": 740}


def switch(site: Site, *, on: bool) -> None:
    """As an author does in the admin."""
    environment = {**os.environ, "STAFFLOOP_VAR": str(site.folder)}
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "-c", SWITCH.format(on=on)]
    subprocess.run(command, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module", autouse=True)
def board(site: Site) -> Iterator[None]:
    switch(site, on=True)
    yield
    switch(site, on=False)


def graded_run(page: Page) -> None:
    open_attempt(page)
    predict(page)
    balance(page)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("heading", name="Criteria")).to_be_visible(timeout=SLOW)
    page.goto(TASK)


@pytest.fixture(scope="module")
def graded(browser: Browser, site: Site, board: None) -> list:
    """Cookies of somebody with a graded run."""
    with open_context(browser, site) as context:
        graded_run(newcomer(context))
        return context.cookies()


def enter(page: Page, name: str) -> None:
    page.get_by_label("Display name").fill(name)
    page.get_by_role("button", name=re.compile("Enter the leaderboard|Change the name")).click()


def own_row(page: Page):
    return page.get_by_role("region", name="Ranks").locator("tr[aria-current]")


def some_name() -> str:
    return f"Router {os.urandom(4).hex()}"


def test_a_learner_enters_and_the_rank_comes_without_a_reload(context: BrowserContext, graded: list) -> None:
    context.add_cookies(graded)
    page, name = context.new_page(), some_name()
    page.goto(TASK)
    with busy_worker(context):
        enter(page, name)
        expect(page.get_by_text(f"You have entered the leaderboard as {name}.")).to_be_visible()
        page.evaluate("window.stillHere = true")
    expect(own_row(page)).to_contain_text(name, timeout=SLOW)
    expect(page.locator("#leaderboard .note")).to_contain_text(
        re.compile(r"Rank \d+ of \d+, with 1\.\d+ ratio")
    )
    expect(page.locator("[data-leaderboard-news]")).to_contain_text("Rank")
    assert page.evaluate("window.stillHere") is True


def test_what_is_being_typed_outlives_the_news_of_the_rank(context: BrowserContext, graded: list) -> None:
    context.add_cookies(graded)
    page = context.new_page()
    page.goto(TASK)
    if page.get_by_role("button", name="Withdraw from the leaderboard").count():
        page.get_by_role("button", name="Withdraw from the leaderboard").click()
        expect(page.get_by_text("You have withdrawn from the leaderboard.")).to_be_visible()
    with busy_worker(context):
        enter(page, some_name())
        expect(page.get_by_text("You have entered")).to_be_visible()
        looks = Held(page, f"**{TASK}")
    renewal = looks.nth(0)
    field = page.get_by_label("Display name")
    field.fill("Half name")
    for _ in "name":
        page.keyboard.press("ArrowLeft")
    renewal.continue_()
    expect(own_row(page)).to_be_visible()
    page.keyboard.type("a ")
    expect(field).to_have_value("Half a name")


def test_without_script_one_enters_is_ranked_is_refused_a_name_and_withdraws(plain_page: Page) -> None:
    page, name = plain_page, some_name()
    graded_run(page)
    enter(page, name)
    load_until(page, TASK, own_row(page))
    expect(own_row(page)).to_contain_text(name)
    enter(page, "a<b>c")
    expect(page.locator("#display-name-error")).to_contain_text("may have letters")
    expect(page.get_by_label("Display name")).to_have_value("a<b>c")
    page.get_by_role("button", name="Withdraw from the leaderboard").click()
    expect(page.get_by_text("You have withdrawn from the leaderboard.")).to_be_visible()
    expect(page.get_by_text(name)).to_have_count(0)


def test_by_keyboard_one_comes_from_the_name_to_both_buttons(context: BrowserContext, graded: list) -> None:
    context.add_cookies(graded)
    page = context.new_page()
    page.goto(TASK)
    enter(page, some_name())
    expect(page.get_by_text(re.compile("You have entered|you are now"))).to_be_visible()
    page.get_by_label("Display name").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Change the name")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Withdraw from the leaderboard")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_board_is_clean_for_everyone_in_both_colours_and_on_a_phone(
    browser, site: Site, graded: list, scheme: str
) -> None:
    with open_context(browser, site, color_scheme=scheme, viewport=PHONE) as context:
        context.add_cookies(graded)
        page = context.new_page()
        page.goto(TASK)
        name = "W" * 31 + os.urandom(4).hex()  # wide, and nowhere to break
        enter(page, name)
        expect(own_row(page)).to_contain_text(name, timeout=SLOW)
        for address, part in ((TASK, "task"), (f"{TASK}leaderboard/", "board")):
            page.goto(address)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            if folder := os.environ.get("STAFFLOOP_SCREENSHOTS"):
                page.screenshot(path=f"{folder}/leaderboard-{part}-{scheme}.png", full_page=True)
