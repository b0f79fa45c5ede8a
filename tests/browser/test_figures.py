"""Figures: a picture first, an interactive chart when it comes into view, operable by keyboard."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SLOW, newcomer, open_context
from tests.journeys.conftest import Site


@pytest.fixture(scope="module")
def drawn(browser: Browser, site: Site) -> tuple[list, str]:
    """Cookies, and the path of a finished run."""
    with open_context(browser, site) as context:
        page = newcomer(context)
        page.goto("/labs/moe-eplb/")
        page.get_by_label("EPLB", exact=True).check()
        page.get_by_role("spinbutton", name="Redundant slots per GPU").fill("1")
        page.get_by_role("button", name="Run").click()
        expect(page.locator("staffloop-figure")).to_have_count(5, timeout=SLOW)
        return context.cookies(), page.url


@pytest.fixture
def run_page(browser: Browser, site: Site, drawn: tuple[list, str]) -> Iterator:
    with ExitStack() as opened:

        def go(**options) -> Page:
            options = {"viewport": {"width": 1280, "height": 700}} | options
            context = opened.enter_context(open_context(browser, site, **options))
            context.add_cookies(drawn[0])
            page = context.new_page()
            page.goto(drawn[1])
            return page

        yield go


def chart(page: Page, nth: int = 0):
    figure = page.locator("staffloop-figure").nth(nth)
    figure.scroll_into_view_if_needed()
    return figure.locator(".chart:not(.pending) svg")


def test_vega_loads_only_when_a_figure_comes_near(run_page) -> None:
    page = run_page(viewport={"width": 360, "height": 60})
    asked: list[str] = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(500)
    assert not [url for url in asked if "vega" in url]
    expect(chart(page)).to_be_visible()
    assert [url for url in asked if "vega-embed" in url]


def test_without_script_every_figure_is_a_picture_with_its_numbers_below(run_page) -> None:
    page = run_page(java_script_enabled=False)
    images = page.locator("staffloop-figure img")
    expect(images).to_have_count(5)
    for image in images.all():
        image.scroll_into_view_if_needed()
        source = urljoin(page.url, image.get_attribute("src"))
        assert page.request.get(source).headers["content-type"].startswith("image/svg+xml")
    page.get_by_text("Data as a table").first.click()
    expect(
        page.get_by_role("region", name=re.compile("Data: Tokens")).get_by_role("cell").first
    ).to_be_visible()


def test_the_picture_stays_where_the_chart_cannot_be_drawn(run_page) -> None:
    page = run_page()
    page.route("**/vega-lite*", lambda route: route.abort())
    with page.expect_console_message(lambda line: line.text.startswith("figure:")):
        page.reload()
        page.locator("staffloop-figure").first.scroll_into_view_if_needed()
    expect(page.locator("staffloop-figure img").first).to_be_visible()


def test_a_drawing_has_a_name_and_nothing_inside_of_it_is_read(run_page) -> None:
    drawing = chart(run_page())
    expect(drawing).to_have_role("img")
    expect(drawing).to_have_accessible_name(re.compile("; the table below has its numbers.$"))
    expect(drawing.locator(":scope > :not([aria-hidden=true])")).to_have_count(0)


def test_a_slider_is_named_and_moves_the_chart_by_keyboard(run_page) -> None:
    page = run_page()
    expect(chart(page)).to_be_visible()
    slider = page.get_by_role("slider", name="Layer")
    slider.focus()
    page.keyboard.press("Home")
    expect(chart(page)).to_contain_text("Layer 0 of")
    page.keyboard.press("ArrowRight")
    expect(chart(page)).to_contain_text("Layer 1 of")


def test_pointing_at_a_mark_shows_its_numbers(run_page) -> None:
    page = run_page()
    expect(chart(page)).to_be_visible()
    page.locator("staffloop-figure").first.locator("path[aria-roledescription=bar]").first.hover()
    expect(page.locator(".figure-tip")).to_contain_text("tokens")


def test_a_chart_takes_the_ink_of_the_scheme_and_follows_a_change(run_page) -> None:
    page = run_page(color_scheme="dark")
    title = chart(page).locator("text", has_text="One GPU receives").first
    expect(title).to_have_attribute("fill", "#e7eaec")
    page.emulate_media(color_scheme="light")
    expect(chart(page).locator("text", has_text="One GPU receives").first).to_have_attribute(
        "fill", "#1b2126"
    )


DRAW_NARROW = """
async () => {
  const url = performance.getEntriesByType("resource").map((one) => one.name).find((one) => /charts[^/]*js$/.test(one));
  const { draw } = await import(url);
  const holder = document.createElement("div");
  holder.className = "chart";
  document.querySelector(".picture").append(holder);
  const long = "Interactivity that nine of ten requests reach with sessions that wait, tokens/s";
  await draw(holder, {
    width: "container", height: 200, data: { values: [{ a: 1 }] }, mark: "point",
    title: { text: TITLE }, config: { title: { anchor: "start", fontSize: 14, fontWeight: 600 } },
    encoding: Object.fromEntries(["x", "y"].map((axis) => [axis, { field: "a", type: "quantitative", title: long }])),
  });
  const edge = holder.querySelector("svg").getBoundingClientRect();
  return [...holder.querySelectorAll("svg text")].map((text) => {
    const box = text.getBoundingClientRect();
    const isInside = box.left > edge.left - 1 && box.right < edge.right + 1 && box.bottom < edge.bottom + 1;
    return [text.textContent, isInside];
  });
}
"""


@pytest.mark.parametrize(
    "title",
    [
        "'A headline that is a good deal longer than a phone is wide, in whole words'",
        "{ expr: \"'A headline that Vega makes, ' + 'longer than a phone'\" }",
    ],
)
def test_on_a_phone_no_title_of_a_chart_is_cut(run_page, title: str) -> None:
    page = run_page(viewport={"width": 360, "height": 700}, bypass_csp=True)
    expect(chart(page)).to_be_visible()
    drawn = page.evaluate(DRAW_NARROW.replace("TITLE", title))
    assert [text for text, is_inside in drawn if "…" in text or not is_inside] == []


def test_on_a_phone_the_tables_of_a_result_show_their_values(run_page) -> None:
    page = run_page(viewport={"width": 360, "height": 700})
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    widths = page.locator("table.stacked").evaluate_all(
        "(all) => all.map((one) => [one.parentElement.scrollWidth, one.parentElement.clientWidth])"
    )
    assert len(widths) >= 2
    assert all(content <= shown for content, shown in widths)
