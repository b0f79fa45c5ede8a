"""A recorded trace of one's own: handed in on the page, checked by a real worker, deleted; by script and without."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import SLOW, load_until, newcomer, open_context

READY = ".badge.good:has-text('Ready')"
PHONE = {"width": 360, "height": 740}


def trace_of(name: str, wrong_lines: int = 0) -> bytes:
    """Forty requests of one session that no other test hands in."""
    requests = [
        {"t": float(turn), "in": 64 * (turn + 1), "out": 7, "hash_ids": list(range(turn + 1))}
        for turn in range(40)
    ]
    line = json.dumps({"id": f"{name} {os.urandom(4).hex()}", "block_size": 64, "requests": requests})
    return gzip.compress((line + "\nnonsense" * wrong_lines).encode())


def hand_in(page: Page, data: bytes, name: str = "mine.jsonl.gz") -> None:
    page.goto("/labs/traces/")
    page.get_by_label("File").set_input_files({"name": name, "mimeType": "application/gzip", "buffer": data})
    page.get_by_role("button", name="Hand in").click()


def test_a_trace_is_handed_in_checked_without_a_reload_and_deleted(page: Page) -> None:
    hand_in(page, trace_of("a", wrong_lines=2))
    mine = page.locator("#mine + p + ul > li")
    expect(mine).to_contain_text("Ready", timeout=SLOW)
    expect(mine).to_contain_text("Requests40")
    mine.get_by_text("Lines refused: 2, repairs: 0").click()
    expect(mine.get_by_text("Line 2: is not JSON")).to_be_visible()
    mine.get_by_role("button", name="Delete mine.jsonl.gz").click()
    expect(page.get_by_text("You have handed in none.")).to_be_visible()


def test_a_file_that_is_none_is_refused_in_words(page: Page) -> None:
    hand_in(page, b"nonsense", "notes.txt")
    mine = page.locator("#mine + p + ul > li")
    expect(mine).to_contain_text("Refused", timeout=SLOW)
    expect(mine.locator(".error-text")).to_contain_text("line 1: is not JSON")


def test_an_empty_file_and_one_that_is_too_large_are_refused_where_they_were_chosen(
    page: Page, tmp_path: Path
) -> None:
    hand_in(page, b"")
    expect(page.locator("#trace-file-error")).to_have_text("body: is an empty file")
    expect(page.get_by_role("alert")).to_be_focused()
    with (tmp_path / "large.gz").open("wb") as file:
        file.truncate(25 * 2**20 + 1)
    page.get_by_label("File").set_input_files(tmp_path / "large.gz")
    page.get_by_role("button", name="Hand in").click()
    expect(page.locator("#trace-file-error")).to_contain_text("at most 25 MiB")


NOTE_WHAT_IS_SHOWN = """() => {
  const form = document.querySelector("staffloop-trace-upload");
  const seen = [];
  new MutationObserver(() => {
    seen.push([form.querySelector("progress").value, form.querySelector("[data-status]").textContent]);
    sessionStorage.setItem("seen", JSON.stringify(seen));
  }).observe(form, {subtree: true, childList: true, characterData: true, attributes: true});
}"""


def test_while_a_file_is_sent_the_page_shows_how_far_it_is(page: Page, tmp_path: Path) -> None:
    (tmp_path / "large.jsonl").write_bytes(trace_of("b") + os.urandom(8 * 2**20))
    page.goto("/labs/traces/")
    page.evaluate(NOTE_WHAT_IS_SHOWN)
    page.get_by_label("File").set_input_files(tmp_path / "large.jsonl")
    page.get_by_role("button", name="Hand in").click()
    expect(page.get_by_role("heading", name="large.jsonl")).to_be_visible(timeout=SLOW)
    seen = json.loads(page.evaluate("sessionStorage.getItem('seen')"))
    assert [1, "Sent; it is being stored."] in seen


def test_without_script_a_form_does_the_same(plain_page: Page) -> None:
    hand_in(plain_page, trace_of("c"))
    expect(plain_page.get_by_text("mine.jsonl.gz: handed in; a worker checks it now.")).to_be_visible()
    load_until(plain_page, "/labs/traces/", plain_page.locator(READY))
    plain_page.get_by_role("button", name="Delete").click()
    expect(plain_page.get_by_text("mine.jsonl.gz was deleted.")).to_be_visible()


def test_a_run_of_the_agent_lab_reads_ones_own_trace_and_names_it(page: Page) -> None:
    hand_in(page, trace_of("f"), "monday.jsonl.gz")
    expect(page.locator(READY)).to_be_visible(timeout=SLOW)
    page.get_by_role("link", name="Play it in An agent is a session, not a request").click()
    expect(page.get_by_label("Trace", exact=True)).to_have_value(re.compile("[0-9a-f]{64}"))
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#run-body")).to_contain_text("Finished", timeout=SLOW)
    expect(page.locator("#run-body")).to_contain_text("monday.jsonl.gz")


def test_the_whole_way_goes_by_keyboard(page: Page) -> None:
    hand_in(page, trace_of("d"))
    expect(page.locator(READY)).to_be_visible(timeout=SLOW)
    page.locator("#trace-file").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("summary", has_text="What a line holds")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Hand in")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Play it in An agent is a session, not a request")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Delete")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("You have handed in none.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_clean_for_everyone_in_both_colours_and_on_a_phone(browser, site, scheme: str) -> None:
    with open_context(browser, site, color_scheme=scheme, viewport=PHONE) as context:
        page = newcomer(context)
        hand_in(page, trace_of("e", wrong_lines=1), "anamewithoutanyplacetobreak" * 3 + ".gz")
        expect(page.locator(READY)).to_be_visible(timeout=SLOW)
        page.locator("details > summary").first.click()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        if folder := os.environ.get("STAFFLOOP_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/traces-{scheme}.png", full_page=True)
