"""A real Chromium on a real site: web and worker as `make serve` starts them, on a folder of their own."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

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


@pytest.fixture
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=site.url, viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def plain_context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """A browser that runs no script."""
    context = browser.new_context(base_url=site.url, java_script_enabled=False)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A newcomer who has signed up and joined the open class."""
    return newcomer(context)


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
    return page
