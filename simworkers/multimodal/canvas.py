"""A canvas of RGB bytes with what charts and terminals need, in whole numbers. Everything is cut off at its edges."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simworkers.multimodal.lettering import (
    SUB,
    Point,
    cover_stroke,
    reduce_samples,
    text_coverage,
    text_width,
)

Colour = tuple[int, int, int]
FULL = SUB * SUB  # coverage of a whole pixel


class Canvas:
    """`pixels` is [height, width, 3] uint8. Positions are pixels from the upper left corner."""

    def __init__(self, width: int, height: int, colour: Colour) -> None:
        self.width, self.height = width, height
        self.pixels = np.full((height, width, 3), colour, dtype=np.uint8)

    def fill(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        self.pixels[max(0, y) : max(0, y + height), max(0, x) : max(0, x + width)] = colour

    def panel(self, x: int, y: int, width: int, height: int, colour: Colour, radius: int = 6) -> None:
        """A rectangle with round corners, smooth at the edge."""
        if width <= 0 or height <= 0:
            return
        radius = min(radius, width // 2, height // 2)
        samples = np.ones((height * SUB, width * SUB), dtype=bool)
        reach = radius * SUB
        # Doubled, so that a sample's middle is a whole number.
        steps = 2 * np.arange(reach) + 1 - 2 * reach
        corner = steps[:, None] ** 2 + steps[None, :] ** 2 <= (2 * reach) ** 2
        for rows, columns, part in (
            (slice(None, reach), slice(None, reach), corner),
            (slice(None, reach), slice(-reach, None), corner[:, ::-1]),
            (slice(-reach, None), slice(None, reach), corner[::-1]),
            (slice(-reach, None), slice(-reach, None), corner[::-1, ::-1]),
        ):
            if reach:
                samples[rows, columns] = part
        self.blend(x, y, reduce_samples(samples), colour)

    def text(
        self,
        x: int,
        y: int,
        text: str,
        colour: Colour,
        unit: int = 4,
        bold: bool = False,
        right: bool = False,
    ) -> None:
        """A line of text from x on, or up to x; `unit` in quarters of a pixel, capitals are 3 · unit px high."""
        if text:
            left = x - text_width(text, unit) if right else x
            self.blend(left, y, text_coverage(text, unit, bold), colour)

    def polyline(self, points: Sequence[Point], colour: Colour, radius: int = 24) -> None:
        """A smooth line through points given in quarters of a pixel; the radius in 32nds of one."""
        left = min(x for x, _ in points) // SUB - 4
        top = min(y for _, y in points) // SUB - 4
        right = max(x for x, _ in points) // SUB + 5
        bottom = max(y for _, y in points) // SUB + 5
        samples = np.zeros(((bottom - top) * SUB, (right - left) * SUB), dtype=bool)
        cover_stroke(samples, [(x - left * SUB, y - top * SUB) for x, y in points], radius)
        self.blend(left, top, reduce_samples(samples), colour)

    def area(self, x: int, tops: NDArray[np.int64], bottom: int, colour: Colour, strength: int) -> None:
        """Tint what lies between `tops`, one for each pixel column from x on, and `bottom`; strength 0 … 16."""
        if not len(tops) or bottom <= 0:
            return
        rows = np.arange(int(tops.min()), bottom)
        if len(rows):
            self.blend(x, int(tops.min()), strength * (rows[:, None] >= tops[None, :]), colour)

    def blend(self, x: int, y: int, coverage: NDArray[np.int64], colour: Colour) -> None:
        """Mix a colour in by coverage: [rows, columns] of 0 … 16, its upper left corner at (x, y)."""
        top, left = max(0, -y), max(0, -x)
        under = self.pixels[
            max(0, y) : max(0, y + coverage.shape[0]), max(0, x) : max(0, x + coverage.shape[1])
        ]
        part = coverage[top : top + under.shape[0], left : left + under.shape[1], None]
        mixed = under.astype(np.int64) * (FULL - part) + np.array(colour) * part
        under[...] = (mixed + FULL // 2) // FULL
