"""Numbers beside points touch nothing, at whatever width they are shown. Sampled, not computed as the module does."""

from itertools import pairwise
from math import hypot

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.agents.pictures.number_places import NEVER, Placed, place_numbers

HEIGHT = 300.0
HALF_HEIGHT = 4.5  # px of a number at font size 11
HALF_DIGIT = 3.25
SYMBOL = 4.0  # px, so much of a symbol is ink
STROKE = 2.0  # px, half of the thickest line

places = st.tuples(st.floats(0.02, 0.94), st.floats(0.09, 0.98))
curves = st.lists(st.lists(places, min_size=1, max_size=5), min_size=1, max_size=5)


def far_from(place: Placed, point, text: str, at) -> float:
    """px from the number's ink to a spot of the picture."""
    middle = point[0] + place.dx, point[1] + place.dy
    x = max(abs(at[0] - middle[0]) - len(text) * HALF_DIGIT, 0)
    y = max(abs(at[1] - middle[1]) - HALF_HEIGHT, 0)
    return hypot(x, y)


def drawn(point, width: float):
    return point[0] * width, point[1] * HEIGHT


def along(a, b, width: float):
    """Spots of the stretch from a to b, a px or so apart."""
    (ax, ay), (bx, by) = drawn(a, width), drawn(b, width)
    count = int(hypot(bx - ax, by - ay)) + 1
    return [(ax + (bx - ax) * n / count, ay + (by - ay) * n / count) for n in range(count + 1)]


@settings(max_examples=60, deadline=None)
@given(curves, st.sampled_from([240, 400, 640, 1200]))
def test_a_number_that_is_shown_touches_no_line_and_no_symbol_and_stays_inside(lines, width):
    numbers = [(point, str(2**n)) for n, point in enumerate(lines[0], 3)]
    for (point, text), place in zip(numbers, place_numbers(numbers, lines, HEIGHT), strict=True):
        if place.least_width > width:
            continue
        at = drawn(point, width)
        for line in lines:
            assert all(far_from(place, at, text, drawn(one, width)) > SYMBOL for one in line)
            for a, b in pairwise(line):
                assert all(far_from(place, at, text, spot) > STROKE for spot in along(a, b, width))
        x, y = at[0] + place.dx, at[1] + place.dy
        assert len(text) * HALF_DIGIT <= x <= width - len(text) * HALF_DIGIT
        assert HALF_HEIGHT <= y <= HEIGHT - HALF_HEIGHT


@settings(max_examples=60, deadline=None)
@given(st.lists(places, min_size=2, max_size=6), st.sampled_from([240, 640]))
def test_two_numbers_that_are_shown_do_not_touch(points, width):
    numbers = [(point, str(2**n)) for n, point in enumerate(points, 3)]
    shown = [
        (text, drawn(point, width), place)
        for (point, text), place in zip(numbers, place_numbers(numbers, [points], HEIGHT), strict=True)
        if place.least_width <= width
    ]
    for index, (text, at, place) in enumerate(shown):
        for other, spot, its in shown[:index]:
            apart_x = abs(at[0] + place.dx - spot[0] - its.dx) - (len(text) + len(other)) * HALF_DIGIT
            apart_y = abs(at[1] + place.dy - spot[1] - its.dy) - 2 * HALF_HEIGHT
            assert max(apart_x, apart_y) > 0


def test_a_number_with_room_stands_above_to_the_right_of_its_point_in_any_picture():
    (place,) = place_numbers([((0.5, 0.5), "8")], [[(0.5, 0.5)]], HEIGHT)
    assert place.dx > 0 > place.dy
    assert place.least_width == 240


def test_a_number_gives_way_to_a_line_above_its_point():
    point = (0.5, 0.5)
    above = [(0.0, 0.47), (1.0, 0.47)]
    (place,) = place_numbers([(point, "8")], [[point], above], HEIGHT)
    assert place.dy >= 0


def test_a_number_for_which_there_is_no_room_is_shown_in_no_picture():
    point = (0.5, 0.5)
    lines = [[(0.0, 0.4 + n / 50), (1.0, 0.4 + n / 50)] for n in range(11)]
    (place,) = place_numbers([(point, "8")], [[point], *lines], HEIGHT)
    assert place.least_width == NEVER


@pytest.mark.parametrize("neighbour", [(0.53, 0.46), (0.5, 0.44)])
def test_a_number_does_not_stand_by_another_point(neighbour):
    point = (0.5, 0.5)
    (place,) = place_numbers([(point, "8")], [[point], [neighbour]], HEIGHT)
    for width in (620, 1200):
        own, other = (
            far_from(place, drawn(point, width), "8", drawn(one, width)) for one in (point, neighbour)
        )
        assert other > own - 5
