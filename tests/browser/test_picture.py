"""A learner's own picture from the lab's page to the figures of its run, and telemetry as tables."""

import os

import pytest
from playwright.sync_api import Page, expect

from simworkers.multimodal.clients import encode_png
from simworkers.multimodal.own_image import MAX_OWN_IMAGE_BYTES
from simworkers.multimodal.pictures import draw_picture
from tests.browser.conftest import SLOW


@pytest.fixture
def page(known_page: Page) -> Page:
    return known_page


@pytest.fixture(scope="module")
def picture() -> bytes:
    return encode_png(draw_picture("dashboard", 5, 320, 200))


def choose(page: Page, data: bytes) -> None:
    page.goto("/labs/multimodal-cache/")
    page.get_by_label("Own image").set_input_files(
        {"name": "mine.png", "mimeType": "image/png", "buffer": data}
    )


def test_a_picture_from_a_file_is_served_and_its_figures_are_drawn(page: Page, picture: bytes) -> None:
    choose(page, picture)
    expect(page.locator("staffloop-picture-file [data-size]")).to_contain_text("mine.png: ")
    page.get_by_label("Picture", exact=True).select_option("own")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("staffloop-figure")).to_have_count(5, timeout=SLOW)
    slider = page.locator("staffloop-figure input[type=range]").first
    expect(slider).to_have_value("2")
    slider.press("ArrowLeft")
    expect(slider).to_have_value("1")


def test_a_file_that_is_too_large_is_refused_where_it_was_chosen(page: Page) -> None:
    choose(page, os.urandom(MAX_OWN_IMAGE_BYTES + 1))
    expect(page.locator("#params-own_image-error")).to_contain_text("at most 512.0 KiB")


def test_telemetry_is_a_table_with_the_names_that_the_prompt_uses(page: Page) -> None:
    page.goto("/labs/classes/open/tasks/multimodal-diagnose/")
    page.get_by_role("button", name="Practise").click()
    table = page.get_by_role("region", name="Turns")
    expect(table.get_by_role("columnheader", name="cached_tokens")).to_be_visible(timeout=SLOW)
    cause = page.get_by_label("Cause")
    expect(cause).to_contain_text("the KV pool is too small")
    expect(cause).to_have_value("")


def test_the_measured_grid_is_drawn_and_a_slider_chooses_the_client(page: Page) -> None:
    page.goto("/labs/multimodal-cache/")
    expect(page.locator("#explore .chart svg")).to_have_count(2, timeout=SLOW)
    slider = page.get_by_label("Client", exact=True).first
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "normalised")
