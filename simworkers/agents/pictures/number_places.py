"""Where a number stands beside its point, so that it touches no line, no point and no other number. Pure geometry.

A picture is as wide as its page, and as high as it is drawn: places along the width are shares of it, all else is in
px. A place is looked for that is free at every width from some least one on, of those that are looked at: every 40 px
from 240 to 1,200. In a narrower picture the number is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot

from simworkers.agents.pictures.figure_parts import Point

DIGIT_WIDTH, TEXT_HEIGHT = 6.5, 9.0  # px, at font size 11
AIR = 2.5  # px between a number and anything else; half a thick line's width is in it
MARK = 5.0  # px from the middle of a point's symbol to its end
WIDTHS = range(1200, 239, -40)  # px of pictures that are looked at
NEVER = 10_000  # px: no picture is so wide
GAPS = (8.0, 14.0)  # px from the point to the number; from further off nobody would see which is meant
ASLANT = 0.78  # of a gap, along either axis, for a number that stands to one side and above or below
SIDES = ((1, -1), (0, -1), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, 1), (-1, 0))  # right and down are positive


@dataclass(frozen=True)
class Placed:
    """Middle of a number, px from its point, and the least width of a picture in which it touches nothing."""

    dx: float
    dy: float
    least_width: int


Box = tuple[float, float, float, float]  # left, top, right, bottom


def place_numbers(
    numbers: Sequence[tuple[Point, str]], curves: Sequence[Sequence[Point]], height: float
) -> list[Placed]:
    """numbers: (point, text), the most important first. curves: all lines of the picture, by their points.

    A point is (share of the width from the left, share of the height from the top).
    """
    placed: list[tuple[Point, str, Placed]] = []
    for point, text in numbers:
        tried = (_tried(point, text, offset, placed, curves, height) for offset in _offsets(len(text)))
        found = min(tried, key=lambda one: one.least_width)
        placed.append((point, text, found))
    return [found for _, _, found in placed]


def _offsets(digits: int) -> Iterator[tuple[float, float]]:
    """Places to try, the nearest first."""
    for gap in GAPS:
        for right, down in SIDES:
            apart = gap * ASLANT if right and down else gap
            yield right * (apart + digits * DIGIT_WIDTH / 2), down * (apart + TEXT_HEIGHT / 2)


def _tried(
    point: Point,
    text: str,
    offset: tuple[float, float],
    placed: Sequence[tuple[Point, str, Placed]],
    curves: Sequence[Sequence[Point]],
    height: float,
) -> Placed:
    """With the least width down to which the place is free all the way."""
    least = NEVER
    for width in WIDTHS:
        box = _box(point, text, offset, width, height)
        others = [
            _box(at, said, (one.dx, one.dy), width, height)
            for at, said, one in placed
            if one.least_width <= width
        ]
        if not _is_inside(box, width, height) or any(_overlap(box, other) for other in others):
            break
        own = _distance(box, (point[0] * width, point[1] * height))
        if any(_is_touched(box, own, curve, width, height) for curve in curves):
            break
        least = width
    return Placed(round(offset[0], 2), round(offset[1], 2), least)


def _box(point: Point, text: str, offset: tuple[float, float], width: float, height: float) -> Box:
    """Of a number, with its air."""
    x, y = point[0] * width + offset[0], point[1] * height + offset[1]
    half_width, half_height = len(text) * DIGIT_WIDTH / 2 + AIR, TEXT_HEIGHT / 2 + AIR
    return x - half_width, y - half_height, x + half_width, y + half_height


def _is_inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _is_touched(box: Box, own: float, curve: Sequence[Point], width: float, height: float) -> bool:
    """By a stretch of the curve, or by one of its symbols, which also must not be much nearer than the number's own
    point, or would seem to be meant. own: px to that."""
    points = [(x * width, y * height) for x, y in curve]
    if any(_distance(box, point) < max(MARK, own - MARK) for point in points):
        return True
    return any(_crosses(box, a, b) for a, b in pairwise(points))


def _distance(box: Box, point: Point) -> float:
    """0 inside."""
    x, y = point
    return hypot(max(box[0] - x, 0, x - box[2]), max(box[1] - y, 0, y - box[3]))


def _crosses(box: Box, a: Point, b: Point) -> bool:
    """Whether the stretch from a to b has a part inside the box: what is left of it after cutting at all four sides."""
    start, end = 0.0, 1.0
    for low, high, at, to in ((box[0], box[2], a[0], b[0]), (box[1], box[3], a[1], b[1])):
        along = to - at
        if along == 0:
            if not low < at < high:
                return False
            continue
        first, last = sorted(((low - at) / along, (high - at) / along))
        start, end = max(start, first), min(end, last)
    return start < end
