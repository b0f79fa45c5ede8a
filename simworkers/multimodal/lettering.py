"""A stroke font of our own, drawn in whole numbers: the same on every machine, which no font library promises.

A glyph is a few polylines on a grid 7 wide, with the capitals' top at row 0, the small letters' at 4, the baseline at
12 and the descenders down to 16. Letters are set 9 apart, lines 22. A stroke covers a sample if the sample lies within
its radius, decided in integers; a pixel has 4 × 4 samples.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

SUB = 4  # samples along each side of a pixel
ADVANCE, ROWS, MARGIN = 9, 22, 2
Point = tuple[int, int]

# Points are two signs, x and y, in base 17; strokes are parted by "|".
GLYPHS = {
    " ": "", "!": "30 38|3b 3c", '"': "20 23|40 43", "#": "20 1c|50 4c|04 64|08 68",
    "$": "62 51 11 03 04 26 46 68 69 5b 1b 0a|30 3c", "%": "60 0c|00 20 22 02 00|4a 6a 6c 4c 4a",
    "&": "6c 13 11 20 30 42 09 0a 2c 3c 68", "'": "30 33", "(": "50 32 3a 5c", ")": "10 32 3a 1c",
    "*": "33 3b|15 59|19 55", "+": "33 3b|07 67", ",": "3b 3c 1e", "-": "17 57", ".": "3b 3c", "/": "60 0c",
    "0": "20 40 62 6a 4c 2c 0a 02 20|43 29", "1": "12 30 3c|1c 5c", "2": "02 20 40 62 64 0c 6c",
    "3": "01 20 40 62 64 46 26|46 68 6a 4c 2c 0b", "4": "4c 40 08 68", "5": "60 00 05 45 67 6a 4c 2c 0a",
    "6": "51 40 20 02 0a 2c 4c 6a 68 46 26 08", "7": "00 60 2c",
    "8": "26 04 02 20 40 62 64 46 26 08 0a 2c 4c 6a 68 46", "9": "1b 2c 4c 6a 62 40 20 02 04 26 46 64",
    ":": "35 36|3b 3c", ";": "35 36|3b 3c 1e", "<": "62 07 6c", "=": "05 65|09 69", ">": "02 67 0c",
    "?": "02 20 40 62 64 37 38|3b 3c", "@": "6c 2c 0a 02 20 40 62 68 38 34 64", "[": "50 20 2c 5c",
    "\\": "00 6c", "]": "10 40 4c 1c", "^": "04 30 64", "_": "0d 6d", "`": "20 32", "{": "50 40 32 34 16 38 3a 4c 5c",
    "|": "30 3e", "}": "10 20 32 34 56 38 3a 2c 1c", "~": "08 26 48 66",
    "A": "0c 30 6c|18 58", "B": "00 0c 4c 6a 68 46 06|46 64 62 40 00", "C": "62 40 20 02 0a 2c 4c 6a",
    "D": "00 0c 3c 69 63 30 00", "E": "60 00 0c 6c|06 56", "F": "60 00 0c|06 56", "G": "62 40 20 02 0a 2c 4c 6a 67 37",
    "H": "00 0c|60 6c|06 66", "I": "10 50|30 3c|1c 5c", "J": "60 6a 4c 2c 0a", "K": "00 0c|60 07|26 6c",
    "L": "00 0c 6c",
    "M": "0c 00 36 60 6c", "N": "0c 00 6c 60", "O": "20 40 62 6a 4c 2c 0a 02 20", "P": "0c 00 40 62 65 47 07",
    "Q": "20 40 62 6a 4c 2c 0a 02 20|48 6c", "R": "0c 00 40 62 65 47 07|37 6c",
    "S": "62 40 20 02 04 26 46 68 6a 4c 2c 0a",
    "T": "00 60|30 3c", "U": "00 0a 2c 4c 6a 60", "V": "00 3c 60", "W": "00 1c 34 5c 60", "X": "00 6c|60 0c",
    "Y": "00 36 60|36 3c", "Z": "00 60 0c 6c",
    "a": "14 44 66 6c|67 27 09 0a 2c 4c 6a", "b": "00 0c|06 24 44 66 6a 4c 2c 0a", "c": "65 44 24 06 0a 2c 4c 6b",
    "d": "60 6c|66 44 24 06 0a 2c 4c 6a", "e": "08 68 66 44 24 06 0a 2c 5c", "f": "60 40 22 2c|04 54",
    "g": "64 6e 4g 1g|66 44 24 06 0a 2c 4c 6a", "h": "00 0c|06 24 44 66 6c", "i": "14 34 3c|1c 5c|30 31",
    "j": "24 44 4e 2g 0g|40 41", "k": "00 0c|54 09|27 6c", "l": "10 30 3c|1c 5c",
    "m": "04 0c|05 14 24 36 3c|36 44 54 66 6c",
    "n": "04 0c|06 24 44 66 6c", "o": "24 44 66 6a 4c 2c 0a 06 24", "p": "04 0g|06 24 44 66 6a 4c 2c 0a",
    "q": "64 6g|66 44 24 06 0a 2c 4c 6a", "r": "04 14 1c|17 34 54 65", "s": "65 54 14 05 07 18 58 69 6b 5c 1c 0b",
    "t": "21 2a 4c 6c|04 54", "u": "04 0a 2c 4c 6a|64 6c", "v": "04 3c 64", "w": "04 1c 36 5c 64", "x": "04 6c|64 0c",
    "y": "04 3c|64 1g 0g", "z": "04 64 0c 6c",
}  # fmt: skip


def text_width(text: str, unit: int) -> int:
    """Pixels that a line of text takes, rounded up; `unit` is the grid's step in samples."""
    return -(-(len(text) * ADVANCE + 2 * MARGIN) * unit // SUB)


def text_coverage(text: str, unit: int, bold: bool = False) -> NDArray[np.int64]:
    """[height, width] samples of each pixel that the text covers, 0 … 16. ValueError for a sign that the font lacks."""
    radius = unit * (6 if bold else 4)  # eighths of a sample
    height = -(-(ROWS * unit) // SUB) * SUB
    samples = np.zeros((height, text_width(text, unit) * SUB), dtype=bool)
    for place, sign in enumerate(text):
        glyph = _glyph(sign, unit, radius)
        left = place * ADVANCE * unit
        samples[: glyph.shape[0], left : left + glyph.shape[1]] |= glyph[:, : samples.shape[1] - left]
    return reduce_samples(samples)


def reduce_samples(samples: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[height, width] covered samples of each pixel; samples: [SUB · height, SUB · width]."""
    height, width = samples.shape[0] // SUB, samples.shape[1] // SUB
    covered: NDArray[np.int64] = samples.reshape(height, SUB, width, SUB).sum(axis=(1, 3), dtype=np.int64)
    return covered


def cover_stroke(samples: NDArray[np.bool_], points: Sequence[Point], radius: int) -> None:
    """Set what a polyline covers; points in samples, the radius in eighths of one. What lies outside is cut off."""
    for start, end in pairwise(points):
        _cover_segment(samples, start, end, radius)


def _cover_segment(samples: NDArray[np.bool_], start: Point, end: Point, radius: int) -> None:
    reach = radius // 8 + 2
    left, right = max(0, min(start[0], end[0]) - reach), max(0, max(start[0], end[0]) + reach)
    top, bottom = max(0, min(start[1], end[1]) - reach), max(0, max(start[1], end[1]) + reach)
    box = samples[top:bottom, left:right]
    # In eighths of a sample; a sample is tested at its middle.
    y, x = (8 * index + 4 for index in np.ogrid[top : top + box.shape[0], left : left + box.shape[1]])
    ax, ay, bx, by = (8 * value for value in (*start, *end))
    dx, dy = bx - ax, by - ay
    along = (x - ax) * dx + (y - ay) * dy  # projection on the segment, times its length
    square = dx * dx + dy * dy
    across = (x - ax) * dy - (y - ay) * dx  # distance from its line, times its length
    near_ends = np.minimum((x - ax) ** 2 + (y - ay) ** 2, (x - bx) ** 2 + (y - by) ** 2) <= radius**2
    beside = (along > 0) & (along < square)  # of a single point nothing is
    box |= near_ends | (beside & (across * across <= radius**2 * square))


@lru_cache(maxsize=2048)
def _glyph(sign: str, unit: int, radius: int) -> NDArray[np.bool_]:
    """[ROWS · unit, ADVANCE · unit] samples, a margin of MARGIN units at the left and the top."""
    if sign not in GLYPHS:
        raise ValueError(f"text: the font has no {sign!r}")
    samples = np.zeros((ROWS * unit, (ADVANCE + MARGIN) * unit), dtype=bool)
    for stroke in GLYPHS[sign].split("|"):
        points = [
            ((int(x, 17) + MARGIN) * unit, (int(y, 17) + MARGIN) * unit)
            for x, y in map(tuple, stroke.split())
        ]
        cover_stroke(samples, points, radius)
    samples.flags.writeable = False
    return samples
