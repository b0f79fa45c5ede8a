"""The placement editor: slots by GPU, loads and faults as one types, and JSON for those who prefer it."""

import json
import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SLOW, newcomer, open_context
from tests.journeys.conftest import Site

TASK = "/labs/classes/open/tasks/moe-place-it/"


@pytest.fixture(scope="module")
def attempt(browser: Browser, site: Site) -> tuple[list, str]:
    """Cookies, and the path of an open practice attempt."""
    with open_context(browser, site) as context:
        page = newcomer(context)
        page.goto(TASK)
        page.get_by_role("button", name="Practise").click()
        expect(page.get_by_role("heading", name="The scenario")).to_be_visible(timeout=SLOW)
        return context.cookies(), page.url


@pytest.fixture
def editor(context, attempt: tuple[list, str]) -> Page:
    context.add_cookies(attempt[0])
    page: Page = context.new_page()
    page.goto(attempt[1])
    expect(page.locator("staffloop-placement").get_by_role("status")).to_contain_text("is busiest with")
    return page


def placement(page: Page) -> list[list[int]]:
    found: list[list[int]] = json.loads(page.get_by_label("Placement", exact=True).input_value())
    return found


def test_a_slot_typed_by_keyboard_changes_loads_and_json(editor: Page) -> None:
    load = editor.get_by_role("group", name="GPU 0").locator(".figure-number")
    before = load.inner_text()
    slot = editor.get_by_label("GPU 0, slot 0: expert")
    slot.focus()
    editor.keyboard.press("ArrowUp")
    expect(slot).to_have_value("1")
    expect(load).not_to_have_text(before)
    assert placement(editor)[0][0] == 1


def test_faults_are_named_and_their_slots_marked(editor: Page) -> None:
    editor.get_by_label("GPU 0, slot 0: expert").fill("99")
    head = editor.locator(".placement-head")
    expect(head).to_contain_text("GPU 0, slot 0: there is no expert 99")
    expect(editor.get_by_label("GPU 0, slot 0: expert")).to_have_attribute("aria-invalid", "true")
    editor.get_by_role("button", name="Contiguous").click()
    expect(head).not_to_contain_text("there is no expert")
    last = editor.get_by_role("spinbutton", name=re.compile("slot 0: expert")).last
    last.fill("0")
    expect(head).to_contain_text("a group's copies share one node")


def test_json_typed_below_is_shown_in_the_grid(editor: Page) -> None:
    rows = placement(editor)
    rows[0][-1] = rows[0][-2]
    editor.get_by_label("Placement", exact=True).fill(json.dumps(rows))
    slots = editor.get_by_role("spinbutton", name=re.compile(": expert"))
    expect(slots.last).to_have_value(str(rows[0][-2]))
    editor.get_by_label("Placement", exact=True).fill("[[1]")
    expect(editor.locator("staffloop-placement").get_by_role("status")).to_contain_text("JSON below is not")


def test_a_refused_placement_is_named_beside_its_field_and_a_good_one_runs(editor: Page) -> None:
    editor.get_by_label("Max over mean").fill("1.3")
    editor.get_by_label("GPU 0, slot 0: expert").fill("99")
    editor.get_by_role("button", name="Run").click()
    problems = editor.locator("[data-problems]")
    expect(problems).to_contain_text("[0][0]: there is no expert 99")
    editor.get_by_role("button", name="The balancer's answer").click()
    editor.get_by_role("button", name="Run").click()
    editor.wait_for_url("**/labs/runs/**")
