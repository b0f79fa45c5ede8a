"""What must hold on every page: no accessibility fault, no breach of the CSP, no sideways scrolling on a phone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.conftest import newcomer, open_context
from tests.browser.tour import Tour, change_scheme, look_at_everything, take_tour
from tests.journeys.conftest import Site

SIGNED_IN = [
    *("home", "course", "section", "quiz", "quiz-attempt", "quiz-result"),
    *("task", "task-attempt", "placement", "run", "what-if", "variation", "labs", "lab", "not-found"),
]
PUBLIC = ["welcome", "login", "signup"]

WATCH = """
window.breaches = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.breaches.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
"""
BREACH = """() => new Promise((resolve) => {
  document.addEventListener("securitypolicyviolation", () => resolve(window.breaches.length));
  setTimeout(resolve, 60_000, 0);
  document.body.insertAdjacentHTML("beforeend", '<p style="color: red">x</p>');
})"""


@pytest.fixture(scope="module")
def tour(browser: Browser, site: Site) -> Tour:
    with open_context(browser, site) as context:
        return take_tour(newcomer(context))


def place(tour: Tour, name: str) -> str:
    return tour.pages.get(name) or tour.public[name]


@pytest.fixture
def visit(browser: Browser, site: Site, tour: Tour) -> Iterator:
    with ExitStack() as opened:

        def go(name: str, prepare: Callable[[Page], None] = lambda page: None, **options) -> Page:
            context = opened.enter_context(open_context(browser, site, **options))
            if name in tour.pages:
                context.add_cookies(tour.cookies)
            page = context.new_page()
            page.add_init_script(WATCH)
            prepare(page)
            page.goto(place(tour, name))
            return page

        yield go


@pytest.mark.parametrize("name", SIGNED_IN + PUBLIC)
def test_axe_finds_nothing_in_light_and_dark(visit, name: str) -> None:
    # axe is injected as a script of its own, which the page's policy rightly forbids.
    page = visit(name, color_scheme="light", bypass_csp=True)
    for scheme in ("light", "dark"):
        if scheme == "dark":
            change_scheme(page, scheme)
        look_at_everything(page)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{scheme}: {found.generate_report()}"


@pytest.mark.parametrize("name", SIGNED_IN + PUBLIC)
def test_on_a_phone_nothing_breaches_the_policy_and_nothing_scrolls_sideways(visit, name: str) -> None:
    errors: list[str] = []

    def listen(page: Page) -> None:
        page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))

    page = visit(name, listen, viewport={"width": 360, "height": 740}, has_touch=True)
    look_at_everything(page)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    unexpected = [line for line in errors if not (name == "not-found" and "404" in line)]
    assert page.evaluate("window.breaches") == []
    assert unexpected == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_policy_allows_no_inline_script_or_style(visit) -> None:
    page = visit("home")
    policy = page.request.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.evaluate(BREACH) == 1
