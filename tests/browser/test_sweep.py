"""The measured sweep on the lab's page: scrubbed by sliders over fixed axes, and a table for everyone."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import SLOW, Held, newcomer, open_context
from tests.journeys.conftest import Site


@pytest.fixture(scope="module")
def cookies(browser: Browser, site: Site) -> list:
    """Of somebody who waited, without a reload, until the sweep was measured."""
    with open_context(browser, site) as context:
        page = newcomer(context)
        page.goto("/labs/moe-eplb/")
        expect(page.locator("#explore .chart svg")).to_have_count(2, timeout=SLOW)
        return context.cookies()


def axis_labels(chart: Locator) -> list[str]:
    return chart.locator(".role-axis-label text").all_inner_texts()


def test_a_slider_moves_the_lines_the_words_and_the_table_but_not_the_axes(context, cookies) -> None:
    context.add_cookies(cookies)
    page: Page = context.new_page()
    page.goto("/labs/moe-eplb/")
    chart = page.locator("#explore .chart svg").first
    line = chart.locator(".mark-line path").first
    summary = page.locator("[data-summary]")
    expect(line).to_be_visible()
    axes, path = axis_labels(chart), line.get_attribute("d")
    page.get_by_text("Numbers as a table").click()
    cell = page.locator("td[data-metric=step_time_us][data-line=false]").last
    number = cell.inner_text()
    slider = page.get_by_role("slider", name="Skew")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "0%")
    expect(cell).not_to_have_text(number)
    expect(line).not_to_have_attribute("d", path or "")
    expect(summary).to_have_text(re.compile("step time is more than 5% lower"))
    expect(summary).to_have_attribute("role", "status")
    assert axis_labels(chart) == axes


def test_a_slider_moves_the_numbers_while_the_charts_are_still_being_drawn(context, cookies) -> None:
    context.add_cookies(cookies)
    page: Page = context.new_page()
    library = Held(page, "**/labs/vega.*.js")
    page.goto("/labs/moe-eplb/")
    module = library.nth(0)
    page.get_by_text("Numbers as a table").click()
    cell = page.locator("td[data-metric=step_time_us][data-line=false]").last
    number = cell.inner_text()
    page.get_by_role("slider", name="Skew").press("Home")
    expect(cell).not_to_have_text(number)
    module.continue_()
    expect(page.locator("#explore .chart .mark-line path").first).to_be_visible()


def call(page: Page, function: str, *arguments: object) -> Any:
    """Of the module that cuts a grid, as this page has loaded it."""
    return page.evaluate(
        """async ([name, values]) => {
            const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
            const grid = await import(loaded.find((address) => /sweep-grid[^/]*[.]js$/.test(address)));
            return grid[name](...values);
        }""",
        [function, list(arguments)],
    )


def points(lines: dict[Any, list[float]]) -> list[dict[str, Any]]:
    return [
        {"x": x, "line": line, "value": value}
        for line, values in lines.items()
        for x, value in zip((5000, 7000, 10_000), values, strict=True)
    ]


def test_a_crossing_is_marked_only_where_the_lines_differ_by_more_than_noise(context, cookies) -> None:
    context.add_cookies(cookies)
    page: Page = context.new_page()
    page.goto("/labs/moe-eplb/")
    expect(page.locator("#explore .chart svg")).to_have_count(2)

    def crossing(off: list[float], on: list[float]) -> dict[str, Any]:
        return call(page, "crossing", [*points({False: off}), *points({True: on})], 0.05)

    noise = crossing([40, 22.164, 1.333], [41, 22.161, 1.321])
    assert (noise["from"], noise["lower"], noise["of"]) == (None, 0, 3)
    effect = crossing([40, 22, 2], [41, 21.5, 1])
    assert (effect["from"], effect["last"]) == (10_000, 7000)
    assert crossing([2, 2, 2], [1, 1, 2])["lower"] == 2
    three = points({"a": [1, 1, 1.06], "b": [5, 5, 5], "c": [1.04, 1, 1]})
    assert call(page, "lowestAt", three, 5000, 0.05) == ["a", "c"]
    assert call(page, "lowestAt", three, 10_000, 0.05) == ["c"]


def test_without_script_selects_choose_the_cut(plain_context, cookies) -> None:
    plain_context.add_cookies(cookies)
    page: Page = plain_context.new_page()
    page.goto("/labs/moe-eplb/")
    chooser = page.locator("#explore").get_by_label("Skew")
    chooser.select_option("0%")
    page.get_by_role("button", name="Show").click()
    expect(chooser).to_have_value("0")
    page.get_by_text("Numbers as a table").click()
    expect(page.get_by_role("region", name="Numbers of the sweep")).to_contain_text("EPLB on")
