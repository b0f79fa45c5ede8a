"""Looking back on a graded run: explain it, check it, change one thing; with and without script."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SLOW, newcomer, open_context
from tests.browser.test_lab import balance, open_attempt, predict
from tests.journeys.conftest import Site


@pytest.fixture(scope="module")
def graded(browser: Browser, site: Site) -> tuple[list, str]:
    """Cookies, and the address of a task's graded run."""
    with open_context(browser, site) as context:
        page = newcomer(context)
        open_attempt(page, "Practise")
        predict(page)
        balance(page)
        page.get_by_role("button", name="Run").click()
        expect(page.locator("staffloop-figure").first).to_be_attached(timeout=SLOW)
        return context.cookies(), page.url


@pytest.fixture
def run_page(browser: Browser, site: Site, graded: tuple[list, str]) -> Iterator:
    with ExitStack() as opened:

        def go(**options) -> Page:
            options = {"viewport": {"width": 1280, "height": 800}} | options
            context = opened.enter_context(open_context(browser, site, **options))
            context.add_cookies(graded[0])
            page = context.new_page()
            page.goto(graded[1])
            return page

        yield go


# Of both in one look: a picture that comes in between would move them.
TOPS = "(all) => all.map((one) => one.getBoundingClientRect().top)"


def test_a_variation_is_started_where_one_reads_and_shown_beside_its_original(run_page) -> None:
    page = run_page()
    original = page.url
    page.get_by_label("Parameter").select_option("redundant_slots_per_gpu")
    value = page.locator("#what-if-step").get_by_label("Redundant slots per GPU")
    expect(value).to_have_value("1")
    page.get_by_role("button", name="Run the variation").click()
    expect(page.get_by_role("alert")).to_contain_text("is the same as in the run itself")
    expect(value).to_have_accessible_description(re.compile("is the same"))
    value.fill("2")
    page.get_by_role("button", name="Run the variation").click()
    page.wait_for_url(lambda url: url != original)
    changes = page.get_by_role("region", name="What changed most")
    expect(changes).to_contain_text(re.compile(r"−[\d.]+ \(−[\d.]+%\)"), timeout=SLOW)
    expect(page.locator(".pair").first.locator("staffloop-figure")).to_have_count(2, timeout=SLOW)
    left, right = page.locator(".pair").first.locator("figure").evaluate_all(TOPS)
    assert left == right
    page.get_by_role("link", name="The original run").click()
    expect(page.get_by_role("link", name="Redundant slots per GPU: 1 → 2")).to_be_visible()


def test_without_script_a_variation_takes_two_plain_forms(run_page) -> None:
    page = run_page(java_script_enabled=False)
    page.get_by_label("Parameter").select_option("window_steps")
    page.get_by_role("button", name="Choose").click()
    page.get_by_label("Window steps").fill("2")
    page.get_by_role("button", name="Run the variation").click()
    expect(page.get_by_text("One thing changed")).to_be_visible(timeout=SLOW)


def test_the_staff_points_come_with_the_explanation_and_ticks_are_kept(run_page) -> None:
    page = run_page()
    page.evaluate("window.stillHere = true")
    page.get_by_role("button", name="Hand in").click()
    words = page.get_by_label("Your explanation")
    expect(words).to_be_focused()
    expect(words).to_have_attribute("aria-invalid", "true")
    assert "Points of the staff answer" not in page.content()
    words.fill("One expert was too hot for any GPU; two copies split its tokens.")
    page.get_by_role("button", name="Hand in").click()
    expect(page.get_by_role("heading", name="Explain it")).to_be_focused()
    page.get_by_role("group", name="Points of the staff answer").get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Save the check").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    assert page.evaluate("window.stillHere") is True
    page.reload()
    expect(page.get_by_text(re.compile(r"You ticked 1 of \d"))).to_be_visible()
