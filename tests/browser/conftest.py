"""A real Chromium on a real site: web and worker as `make serve` starts them, on a folder of their own."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect, sync_playwright

from tests.faults.servers import die_with_me
from tests.journeys.conftest import Site, end
from tests.requirements import require

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Nothing of the browser's own may reach out.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PASSWORD = "violet-turbine-41"

# A slow machine is no fault. These bound a wait for what never comes, and say nothing of how long it should take.
expect.set_options(timeout=60_000)
ACTION_MS = 120_000  # to click, to fill in, to load a page
SLOW = 900_000  # ms; what a worker computes, maybe after the sweeps of other pages


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One site and one browser serve all of these, so one process runs them."""
    for item in items:
        if Path(item.path).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require(CHROMIUM is not None, "chromium on the PATH")
    folder = tmp_path_factory.mktemp("browser-site")
    environment = {
        **os.environ,
        "STAFFLOOP_VAR": str(folder),
        "STAFFLOOP_REGISTER_RATE": "1000/hour",
        "STAFFLOOP_RUN_TIME_LIMIT_S": "1800",
        "PYTHONUNBUFFERED": "1",
    }
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "bootstrap"], env=environment, check=True, capture_output=True)
    server = subprocess.Popen(
        [*manage, "serve", "--port", "0", "--workers", "1"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_me(),
    )
    assert server.stdout is not None
    site = Site(folder)
    threading.Thread(target=site.listen, args=(server.stdout,), daemon=True).start()
    try:
        assert site.answers.wait(180), "the site did not start"
        yield site
    finally:
        end(server)


@pytest.fixture(scope="package")
def browser(site: Site) -> Iterator[Browser]:
    """Ends with these tests: it runs an event loop, and Django refuses its database to a thread that has one."""
    with sync_playwright() as playwright:
        # launch() gives every browser a fresh profile folder, and removes it.
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def open_context(browser: Browser, site: Site, **options: Any) -> Iterator[BrowserContext]:
    # Without transitions: axe would judge the colours of a button that is on its way from one scheme to the other.
    context = browser.new_context(base_url=site.url, reduced_motion="reduce", **options)
    context.set_default_timeout(ACTION_MS)
    try:
        yield context
    finally:
        context.close()


@pytest.fixture
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    with open_context(browser, site, viewport={"width": 1280, "height": 900}) as context:
        yield context


@pytest.fixture
def plain_context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """A browser that runs no script."""
    with open_context(browser, site, java_script_enabled=False) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A newcomer who has signed up and joined the open class."""
    return newcomer(context)


@pytest.fixture(scope="package")
def known(browser: Browser, site: Site) -> list:
    """Cookies of one learner for all tests that ask not what this learner did before: signing up takes a second."""
    with open_context(browser, site) as context:
        newcomer(context)
        return context.cookies()


@pytest.fixture
def known_page(context: BrowserContext, known: list) -> Page:
    context.add_cookies(known)
    return context.new_page()


@pytest.fixture
def plain_page(plain_context: BrowserContext) -> Page:
    return newcomer(plain_context)


def newcomer(context: BrowserContext) -> Page:
    page = context.new_page()
    page.goto("/accounts/signup/")
    page.get_by_label("Username").fill(f"learner-{os.urandom(5).hex()}")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Make the account").click()
    page.get_by_role("button", name="Join").first.click()
    expect(page.get_by_role("region", name="Your progress")).to_be_visible()
    return page


class Held:
    """Requests of a page that are kept from the server until a test lets them go on."""

    def __init__(self, page: Page, pattern: str) -> None:
        self.page = page
        self.routes: list[Route] = []
        page.route(pattern, lambda route: self.routes.append(route))

    def nth(self, number: int) -> Route:
        """Waits until the page has sent so many."""
        ends_at = time.monotonic() + SLOW / 1000
        while len(self.routes) <= number:
            assert time.monotonic() < ends_at, "the page did not send it"
            self.page.wait_for_timeout(20)
        return self.routes[number]


def load_until(page: Page, address: str, wanted: Locator) -> None:
    """Load a page that runs no script again and again, until it shows what a worker computes."""
    ends_at = time.monotonic() + SLOW / 1000
    while not wanted.count() and time.monotonic() < ends_at:
        page.wait_for_timeout(500)
        page.goto(address)
    expect(wanted).to_be_visible()
