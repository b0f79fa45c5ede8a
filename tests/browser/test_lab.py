"""The lab task: from opening an attempt to its figures, with and without script; and free exploration."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import SLOW

TASK = "/labs/classes/open/tasks/moe-balance-hbm/"
STEP = re.compile(r"Step \d+ of \d+")
# Near the largest run that the lab takes: it is to be under way when one looks, and is cancelled then.
LONG = {"steps": 256, "layers": 10}


def open_attempt(page: Page, button: str = "Open attempt") -> None:
    page.goto(TASK)
    page.get_by_role("button", name=button).click()
    expect(page.get_by_role("heading", name="The scenario")).to_be_visible(timeout=SLOW)


def predict(page: Page) -> None:
    page.get_by_label("Straggler GPU").fill("1")
    page.get_by_label("Max over mean").fill("1.7")


def balance(page: Page) -> None:
    page.get_by_label("EPLB", exact=True).check()
    page.get_by_label("Redundant slots per GPU").fill("1")


def start_free(page: Page, *, seed: int, steps: int = 64, layers: int = 4) -> None:
    page.goto("/labs/moe-eplb/")
    page.get_by_label("Number of steps").fill(str(steps))
    page.get_by_label("Number of layers").fill(str(layers))
    page.get_by_label("Seed", exact=True).fill(str(seed))
    page.get_by_role("button", name="Run").click()
    page.wait_for_url("**/labs/runs/**")


def cancel(page: Page) -> None:
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_role("heading", name="The run was cancelled")).to_be_visible()


@contextmanager
def busy_worker(context: BrowserContext) -> Iterator[None]:
    """The worker's only slot is taken: what is asked of it meanwhile waits."""
    page = context.new_page()
    start_free(page, seed=int.from_bytes(os.urandom(4)), **LONG)
    expect(page.get_by_text(STEP)).to_be_visible(timeout=SLOW)
    yield
    # Where the test took so long that the run is over by itself, there is nothing to cancel.
    page.evaluate("document.querySelector('#run-body form')?.requestSubmit()")
    expect(page.get_by_role("link", name="Change something and run again")).to_be_visible(timeout=SLOW)
    page.close()


def test_a_graded_run_goes_from_attempt_to_score_and_figures_without_a_reload(page: Page) -> None:
    open_attempt(page)
    predict(page)
    balance(page)
    page.get_by_role("button", name="Run").click()
    page.wait_for_url("**/labs/runs/**")
    page.evaluate("window.stillHere = true")
    expect(page.get_by_role("heading", name="Criteria")).to_be_visible(timeout=SLOW)
    expect(page.locator("staffloop-figure")).to_have_count(5, timeout=SLOW)
    assert page.evaluate("window.stillHere") is True
    expect(page.locator(".score")).to_have_text(re.compile(r"^\d"))
    prediction = page.get_by_role("region", name="Prediction and outcome")
    expect(prediction).to_contain_text("GPU 1")
    expect(page.get_by_text("Outputs equal across shuffle")).to_be_visible()
    page.goto("/classes/open/")
    row = page.locator("li.card", has_text="Balance within an HBM budget")
    expect(row).to_contain_text("Done")


def test_refused_values_stand_beside_their_fields_and_nothing_typed_is_lost(known_page: Page) -> None:
    open_attempt(known_page, "Practise")
    known_page.get_by_label("Straggler GPU").fill("99")
    known_page.get_by_label("Redundant slots per GPU").fill("3")
    known_page.get_by_role("button", name="Run").click()
    problems = known_page.get_by_role("alert")
    expect(problems).to_be_focused()
    problems.get_by_role("link", name="Straggler GPU").click()
    field = known_page.get_by_label("Straggler GPU")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_accessible_description(re.compile("less than or equal to"))
    expect(known_page.get_by_label("Max over mean")).to_have_accessible_description(re.compile("required"))
    expect(known_page.get_by_label("Redundant slots per GPU")).to_have_value("3")


def test_without_script_the_whole_task_works_by_plain_forms(plain_page: Page) -> None:
    plain_page.goto(TASK)
    plain_page.get_by_role("button", name="Open attempt").click()
    # The page reloads itself while the instance is being drawn.
    expect(plain_page.get_by_role("heading", name="The scenario")).to_be_visible(timeout=SLOW)
    plain_page.get_by_label("Max over mean").fill("1.5")
    plain_page.get_by_label("Straggler GPU").fill("99")
    plain_page.locator("form").evaluate_all("forms => forms.forEach((form) => (form.noValidate = true))")
    plain_page.get_by_role("button", name="Run").click()
    expect(plain_page.get_by_role("alert")).to_contain_text("Straggler GPU: Input should be less than")
    expect(plain_page.get_by_label("Max over mean")).to_have_value("1.5")
    plain_page.get_by_label("Straggler GPU").fill("1")
    plain_page.get_by_role("button", name="Run").click()
    expect(plain_page.get_by_role("heading", name="Criteria")).to_be_visible(timeout=SLOW)
    plain_page.reload()
    expect(plain_page.get_by_text("You predicted")).to_be_visible()


def test_a_run_is_cancelled_and_the_attempt_stays(page: Page) -> None:
    open_attempt(page)
    predict(page)
    with busy_worker(page.context):
        page.get_by_role("button", name="Run").click()
        cancel(page)
    page.get_by_role("link", name="Run it again").click()
    expect(page.get_by_text("Your prediction was locked")).to_be_visible()


def test_free_exploration_shows_live_progress_and_starts_again_from_a_run(known_page: Page) -> None:
    start_free(known_page, seed=11, **LONG)
    expect(known_page.get_by_text(STEP)).to_be_visible(timeout=SLOW)
    expect(known_page.get_by_role("progressbar")).to_have_attribute("max", re.compile(r"\d+"))
    cancel(known_page)
    known_page.get_by_role("link", name="Change something and run again").click()
    expect(known_page.get_by_label("Number of steps")).to_have_value(str(LONG["steps"]))
    expect(known_page.get_by_label("Seed", exact=True)).to_have_value("11")


def test_progress_comes_as_a_stream_and_a_running_run_is_not_polled(known_page: Page) -> None:
    asked: list[str] = []
    start_free(known_page, seed=21, **LONG)
    step = known_page.get_by_text(STEP)
    expect(step).to_be_visible(timeout=SLOW)
    known_page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    seen = step.inner_text()
    expect(step).not_to_have_text(seen)
    cancel(known_page)
    # Only a page whose last two streams told nothing may poll.
    before = list(takewhile(lambda one: not re.search(r"GET .*/api/v1/runs/[^/]+/$", one), asked))
    tickets = [one for one in before if one.endswith("/stream-tickets/")]
    assert before == asked or len(tickets) >= 2


def test_where_no_stream_comes_through_the_page_polls(known_page: Page) -> None:
    known_page.route("**/events/**", lambda route: route.abort())
    start_free(known_page, seed=22)
    expect(known_page.get_by_text("Finished", exact=True)).to_be_visible(timeout=SLOW)


def test_a_seed_that_a_number_of_the_browser_would_round_arrives_in_full(known_page: Page) -> None:
    start_free(known_page, seed=2**63 - 1)
    expect(known_page.locator("code", has_text=str(2**63 - 1))).to_be_visible(timeout=SLOW)


def test_a_value_that_is_refused_in_a_folded_group_opens_it(known_page: Page) -> None:
    known_page.goto("/labs/moe-eplb/")
    field = known_page.get_by_label("Window steps")
    expect(field).to_be_hidden()
    known_page.get_by_role("heading", name="Balancer").click()
    field.fill("0")
    known_page.get_by_role("heading", name="Balancer").click()
    expect(field).to_be_hidden()
    known_page.get_by_role("button", name="Run").click()
    expect(field).to_be_visible()
    expect(field).to_have_attribute("aria-invalid", "true")


def test_a_text_file_fills_the_long_field_and_a_binary_one_is_refused_beside_it(known_page: Page) -> None:
    known_page.goto("/labs/moe-eplb/")
    known_page.get_by_role("heading", name="Traffic").click()
    chooser = known_page.get_by_label("Or from a file")
    field = known_page.get_by_label("Own text", exact=True)
    chooser.set_input_files(
        {"name": "mine.txt", "mimeType": "text/plain", "buffer": "Grüße\r\n".encode() * 300}
    )
    expect(field).to_have_value("Grüße\n" * 300)
    expect(known_page.get_by_text("mine.txt: 2.3 KiB of at most 256.0 KiB")).to_be_visible()
    for name, data, words in (
        ("photo.png", b"\x89PNG\xff\xfe", "photo.png is not text in UTF-8"),
        ("tool.bin", b"abc\x00def", "tool.bin holds control characters"),
        ("long.txt", b"x" * (256 * 1024 + 1), "long.txt has 256.0 KiB; at most"),
    ):
        chooser.set_input_files({"name": name, "mimeType": "text/plain", "buffer": data})
        expect(field).to_have_accessible_description(re.compile(words))
        expect(field).to_have_value("Grüße\n" * 300)
