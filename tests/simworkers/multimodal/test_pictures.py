from fractions import Fraction
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.multimodal.canvas import Canvas
from simworkers.multimodal.dashboard import random_walk
from simworkers.multimodal.landscape import ONE, noise
from simworkers.multimodal.lettering import GLYPHS, cover_stroke, reduce_samples, text_coverage, text_width
from simworkers.multimodal.pictures import PICTURE_KINDS, draw_picture
from simworkers.multimodal.terminal import FAILURES, RED, _screen
from simworkers.rng import Stream

# Whole numbers all the way, so these hold on every machine.
DIGESTS = {
    "dashboard": "73b73ca4a2a7dd15",
    "terminal": "b20d1e7dfd4241d8",
    "photo": "8a19f3736d402914",
}


@pytest.mark.parametrize("kind", PICTURE_KINDS)
def test_a_seed_names_the_same_pixels_for_ever(kind):
    pixels = draw_picture(kind, seed=1, width=400, height=300)
    assert pixels.shape == (300, 400, 3) and pixels.dtype == np.uint8
    assert sha256(pixels.tobytes()).hexdigest()[:16] == DIGESTS[kind]


@pytest.mark.parametrize("kind", PICTURE_KINDS)
def test_another_seed_is_another_picture(kind):
    one, other = (draw_picture(kind, seed, 320, 200) for seed in (1, 2))
    assert (one != other).any()


@pytest.mark.parametrize("kind", PICTURE_KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), width=st.integers(64, 500), height=st.integers(64, 400))
def test_every_allowed_size_can_be_drawn(kind, seed, width, height):
    assert draw_picture(kind, seed, width, height).shape == (height, width, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cat", 0), "kind: must be one of dashboard, terminal, photo, not 'cat'"),
        (("photo", 0, 63, 100), "width: must lie in 64 … 4096 pixels, not 63"),
        (("photo", 0, 64, 4097), "height: must lie in 64 … 4096 pixels, not 4097"),
    ],
)
def test_another_kind_or_size_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_picture(*arguments)


@pytest.mark.parametrize("seed", range(20))
def test_exactly_one_pod_fails_and_every_line_can_be_written(seed):
    lines = _screen(Stream(seed, "test"), "shop")
    statuses = [text.strip() for line in lines for text, colour in line if colour == RED]
    assert sum(status in {failure.status for failure in FAILURES} for status in statuses) == 1
    assert all(sign in GLYPHS for line in lines for text, _ in line for sign in text)


def test_the_four_failures_all_come_up():
    seen = {line[1][0].strip() for seed in range(40) for line in _screen(Stream(seed, "test"), "shop")[2:10]}
    assert seen == {"Running", *(failure.status for failure in FAILURES)}


def test_the_font_has_every_printable_sign():
    assert set(GLYPHS) == {chr(code) for code in range(32, 127)}


def test_no_two_signs_look_alike():
    drawn = {sign: text_coverage(sign, 4).tobytes() for sign in GLYPHS}
    assert len(set(drawn.values())) == len(GLYPHS)


def test_a_sign_that_the_font_lacks_is_named():
    with pytest.raises(ValueError, match="the font has no 'é'"):
        text_coverage("café", 4)


def test_text_is_as_wide_as_foretold_and_nothing_is_cut_off():
    for unit in (4, 5, 8):  # at smaller ones the margin is less than a pixel
        coverage = text_coverage("WgM@", unit)
        assert coverage.shape[1] == text_width("WgM@", unit)
        assert not coverage[:, 0].any() and not coverage[0].any() and not coverage[-1].any()


@settings(deadline=None)
@given(
    st.tuples(st.integers(-4, 24), st.integers(-4, 24)),
    st.tuples(st.integers(-4, 24), st.integers(-4, 24)),
    st.integers(1, 40),
)
def test_a_stroke_covers_the_samples_within_its_radius(start, end, radius):
    samples = np.zeros((20, 20), dtype=bool)
    cover_stroke(samples, [start, end], radius)
    (ax, ay), (bx, by) = start, end
    square = (bx - ax) ** 2 + (by - ay) ** 2
    for row in range(20):
        for column in range(20):
            x, y = column + Fraction(1, 2), row + Fraction(1, 2)
            along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / square if square else Fraction(0)
            along = min(max(along, Fraction(0)), Fraction(1))
            distance = (x - ax - along * (bx - ax)) ** 2 + (y - ay - along * (by - ay)) ** 2
            assert samples[row, column] == (distance <= Fraction(radius, 8) ** 2)


def test_coverage_counts_the_samples_of_a_pixel():
    samples = np.zeros((8, 4), dtype=bool)
    samples[4:, :3] = True
    assert reduce_samples(samples).tolist() == [[0], [12]]


def test_blending_mixes_by_coverage_and_cuts_off_at_the_edges():
    canvas = Canvas(2, 2, (0, 0, 0))
    canvas.blend(-1, 1, np.array([[16, 8, 16], [16, 16, 16]]), (100, 200, 40))
    assert canvas.pixels[:, :, 1].tolist() == [[0, 0], [100, 200]]


def test_what_lies_wholly_outside_changes_nothing():
    canvas = Canvas(8, 8, (1, 2, 3))
    canvas.text(-200, -200, "text", (255, 255, 255))
    canvas.panel(20, 20, 10, 10, (255, 255, 255))
    canvas.fill(-5, -5, 4, 4, (255, 255, 255))
    canvas.polyline([(400, 400), (500, 420)], (255, 255, 255))
    assert (canvas.pixels == (1, 2, 3)).all()


def test_a_walk_stays_within_its_bounds_and_goes_no_faster_than_its_step():
    walk = random_walk(Stream(5, "test"), 500, 7, 10, 60)
    assert walk.min() >= 10 and walk.max() <= 60
    assert np.abs(np.diff(walk)).max() <= 7


def test_noise_is_smooth_and_stays_within_its_range():
    field = noise(Stream(5, "test"), 100, 120, 40, octaves=1)
    assert field.shape == (100, 120) and field.min() >= 0 and field.max() <= ONE
    steps = max(np.abs(np.diff(field, axis=axis)).max() for axis in (0, 1))
    assert steps < ONE / 20  # at most 1.5 / 40 of the whole range, by the slope of the easing
