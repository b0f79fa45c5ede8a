"""From the door to the text: signing up, joining, reading, signing out."""

import re

from playwright.sync_api import Page, expect


def test_a_newcomer_signs_up_joins_and_reads_in_order(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_contain_text("Track 05")
    expect(page.get_by_role("region", name="Your progress")).to_contain_text(
        re.compile(r"0 of \d+ points \(0 / 17 done\)")
    )
    page.get_by_role("link", name="The unit of serving").click()
    expect(page.get_by_text("Section 1 of 5")).to_be_visible()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("Section 2 of 5")).to_be_visible()
    expect(page.get_by_role("link", name="Previous")).to_be_visible()


def test_after_the_last_section_comes_the_first_thing_to_do(page: Page) -> None:
    page.get_by_role("link", name="Sessions").click()
    page.get_by_role("link", name="Next, to do").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Balance within an HBM budget")


def test_signing_out_leads_to_the_door_and_pages_behind_it_ask_to_sign_in(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Make an account")).to_be_visible()
    page.goto("/classes/open/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_weak_password_is_refused_beside_its_field(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="Make an account").click()
    page.get_by_label("Username").fill("somebody")
    page.get_by_label("Password").fill("12345")
    page.get_by_role("button", name="Make the account").click()
    expect(page.get_by_role("alert")).to_contain_text("too short")
    page.get_by_role("alert").get_by_role("link", name="Password").first.click()
    expect(page.get_by_label("Password")).to_be_focused()


def test_the_first_tab_stop_skips_to_the_content(known_page: Page) -> None:
    known_page.goto("/")
    known_page.keyboard.press("Tab")
    expect(known_page.get_by_role("link", name="Skip to the content")).to_be_focused()
    known_page.keyboard.press("Enter")
    expect(known_page.locator("#main")).to_be_focused()
