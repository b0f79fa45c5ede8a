"""A dashboard of a serving cluster: numbers, lines, an area and bars, drawn from seeded random walks."""

import numpy as np
from numpy.typing import NDArray

from simworkers.multimodal.canvas import Canvas, Colour
from simworkers.multimodal.lettering import SUB, text_width
from simworkers.rng import Stream

BACK, PANEL, GRID, TEXT, DIM = (17, 18, 23), (27, 29, 36), (46, 49, 58), (222, 225, 232), (139, 144, 156)
GREEN, YELLOW, BLUE, ORANGE, RED = (
    (115, 191, 105),
    (242, 204, 12),
    (87, 148, 242),
    (255, 152, 48),
    (242, 73, 92),
)
SERIES = (GREEN, YELLOW, BLUE, ORANGE)
CLUSTERS = ("prod-eu-1", "prod-us-2", "prod-ap-1", "staging")
Box = tuple[int, int, int, int]  # x, y, width, height in pixels


def draw_dashboard(stream: Stream, width: int, height: int) -> Canvas:
    """A row of numbers above two rows of charts."""
    unit = max(2, min(width // 320, height // 200))
    gap, head = 3 * unit, 11 * unit
    canvas = Canvas(width, height, BACK)
    cluster = CLUSTERS[stream.integer(len(CLUSTERS))]
    canvas.text(gap, 2 * unit, f"Inference / {cluster}", TEXT, unit + 1, bold=True)
    canvas.text(
        width - gap, 3 * unit, f"Last 6 hours   {1 + stream.integer(24)} nodes", DIM, unit, right=True
    )
    numbers_height = height * 16 // 100
    charts_height = (height - head - numbers_height - 3 * gap) // 2
    for place, box in enumerate(_columns((gap, head, width - 2 * gap, numbers_height), 4, gap)):
        _number(canvas, stream, box, place, unit)
    upper = (gap, head + numbers_height + gap, width - 2 * gap, charts_height)
    lower = (gap, upper[1] + charts_height + gap, width - 2 * gap, charts_height)
    left, right = _columns(upper, 2, gap)
    _lines(canvas, stream, left, unit)
    _bars(canvas, stream, right, unit)
    left, middle, right = _columns(lower, 3, gap)
    _area(canvas, stream, left, unit)
    _heat(canvas, stream, middle, unit)
    _table(canvas, stream, right, unit)
    return canvas


def random_walk(stream: Stream, count: int, step: int, low: int, high: int) -> NDArray[np.int64]:
    """[count] whole numbers that wander between two bounds and turn back at them."""
    span = max(1, high - low)
    walk = stream.integer(span) + np.cumsum(stream.integers(2 * step + 1, count) - step)
    folded = walk % (2 * span)
    return low + np.minimum(folded, 2 * span - folded)


def _columns(box: Box, count: int, gap: int) -> list[Box]:
    x, y, width, height = box
    each = (width - (count - 1) * gap) // count
    return [(x + place * (each + gap), y, each, height) for place in range(count)]


def _number(canvas: Canvas, stream: Stream, box: Box, place: int, unit: int) -> None:
    """A panel with one figure, large, above a small line of how it came about."""
    title, text, colour = (
        ("TTFT P99", f"{180 + stream.integer(900)} ms", ORANGE),
        ("Output tokens/s", f"{8 + stream.integer(40)},{stream.integer(1000):03}", GREEN),
        ("Prefix cache hits", f"{40 + stream.integer(59)}.{stream.integer(10)} %", BLUE),
        ("Pods not ready", f"{1 + stream.integer(5)}", RED),
    )[place]
    x, y, width, height = box
    _panel(canvas, box, title, unit)
    canvas.text(x + 3 * unit, y + 8 * unit, text, colour, 2 * unit, bold=True)
    walk = random_walk(stream, max(2, width // 8), 12, 0, 100)
    _curve(canvas, (x, y + height * 3 // 4, width, height // 4 - unit), walk, 100, colour, 16, strength=3)


def _lines(canvas: Canvas, stream: Stream, box: Box, unit: int) -> None:
    _panel(canvas, box, "GPU utilisation by replica", unit)
    plot = _axes(canvas, box, unit, ["100 %", "75 %", "50 %", "25 %", "0 %"], legend_lines=1)
    x = plot[0]
    for place, colour in enumerate(SERIES):
        walk = random_walk(stream, max(2, plot[2] // 6), 60, 150 + 160 * place, 420 + 160 * place)
        _curve(canvas, plot, walk, 1000, colour, 7 * unit)
        name = f"replica-{place}"
        bottom = box[1] + box[3] - 7 * unit
        canvas.fill(x, bottom + 2 * unit, 4 * unit, unit, colour)
        canvas.text(x + 5 * unit, bottom, name, DIM, unit)
        x += 5 * unit + text_width(name, unit) + 2 * unit


def _bars(canvas: Canvas, stream: Stream, box: Box, unit: int) -> None:
    _panel(canvas, box, "Requests by status", unit)
    x, y, width, height = _axes(canvas, box, unit, ["1.2k", "900", "600", "300", "0"])
    count = max(1, width // (5 * unit))
    good = random_walk(stream, count, 60, 420, 900)
    failed = random_walk(stream, count, 25, 0, 160)
    for place in range(count):
        left, right = x + place * width // count, x + (place + 1) * width // count - max(1, unit // 2)
        good_px, failed_px = int(good[place]) * height // 1200, int(failed[place]) * height // 1200
        canvas.fill(left, y + height - good_px, right - left, good_px, GREEN)
        canvas.fill(left, y + height - good_px - failed_px, right - left, failed_px, RED)


def _area(canvas: Canvas, stream: Stream, box: Box, unit: int) -> None:
    _panel(canvas, box, "KV cache in use", unit)
    plot = _axes(canvas, box, unit, ["80 GB", "60 GB", "40 GB", "20 GB", "0"])
    walk = random_walk(stream, max(2, plot[2] // 5), 40, 250, 950)
    _curve(canvas, plot, walk, 1000, BLUE, 8 * unit, strength=5)


def _heat(canvas: Canvas, stream: Stream, box: Box, unit: int) -> None:
    """Latency by time of day: one column a moment, darker where fewer requests fell."""
    _panel(canvas, box, "Latency histogram", unit)
    x, y, width, height = _axes(canvas, box, unit, ["8 s", "4 s", "2 s", "1 s", "0"])
    rows, columns = 12, max(1, width // (3 * unit))
    centre = random_walk(stream, columns, 8, 20, 90)
    spread = stream.integers(25, rows * columns).reshape(rows, columns)
    for row in range(rows):
        top, bottom = y + row * height // rows, y + (row + 1) * height // rows - 1
        for column in range(columns):
            far = abs((rows - row) * 10 - int(centre[column]))
            heat = max(0, 100 - 3 * far + int(spread[row, column]) - 12)
            if heat:
                colour = (27 + heat * 210 // 120, 29 + heat * 110 // 120, 36 + heat * 20 // 120)
                left = x + column * width // columns
                canvas.fill(left, top, x + (column + 1) * width // columns - left - 1, bottom - top, colour)


def _table(canvas: Canvas, stream: Stream, box: Box, unit: int) -> None:
    """The replicas with what each does now."""
    _panel(canvas, box, "Replicas", unit)
    x, y, width, height = box
    rights = [x + width * 58 // 100, x + width * 78 // 100, x + width - 3 * unit]
    top = y + 9 * unit
    for title, right in zip(("queue", "hit %", "ITL ms"), rights, strict=True):
        canvas.text(right, top, title, DIM, unit, right=True)
    for place in range((height - 16 * unit) // (6 * unit)):
        row = top + (place + 1) * 6 * unit
        canvas.fill(x + 2 * unit, row - unit // 2, width - 4 * unit, 1, GRID)
        canvas.text(x + 2 * unit, row, f"replica-{place}", TEXT, unit)
        queue, hits, itl = stream.integer(40), 30 + stream.integer(69), 9 + stream.integer(50)
        for text, right, bad in zip(
            (queue, hits, itl), rights, (queue > 30, hits < 45, itl > 50), strict=True
        ):
            canvas.text(right, row, str(text), RED if bad else TEXT, unit, right=True)


def _panel(canvas: Canvas, box: Box, title: str, unit: int) -> None:
    canvas.panel(*box, PANEL, radius=unit)
    canvas.text(box[0] + 2 * unit, box[1] + unit, title, TEXT, unit)


def _axes(canvas: Canvas, box: Box, unit: int, labels: list[str], legend_lines: int = 0) -> Box:
    """Grid lines with labels, the hours below; returns the box in which values are drawn."""
    x, y, width, height = box
    left = x + text_width("80 GB", unit) + 2 * unit
    plot = (left, y + 10 * unit, x + width - left - 3 * unit, height - (18 + 6 * legend_lines) * unit)
    for place, label in enumerate(labels):
        row = plot[1] + place * plot[3] // (len(labels) - 1)
        canvas.fill(left, row, plot[2], 1, GRID)
        canvas.text(left - unit, row - 2 * unit, label, DIM, unit, right=True)
    marks = max(1, plot[2] // (20 * unit))
    for place in range(marks):
        canvas.text(
            left + place * plot[2] // marks, plot[1] + plot[3] + unit, f"{9 + place:02}:00", DIM, unit
        )
    return plot


def _curve(
    canvas: Canvas,
    plot: Box,
    values: NDArray[np.int64],
    top: int,
    colour: Colour,
    radius: int,
    strength: int = 0,
) -> None:
    """Values of 0 … top as a line over the whole width, what lies below tinted by `strength` sixteenths."""
    x, y, width, height = plot
    if width <= 1 or height <= 0:
        return
    steps = len(values) - 1
    points = [
        (SUB * x + place * SUB * (width - 1) // steps, SUB * (y + height) - int(value) * SUB * height // top)
        for place, value in enumerate(values)
    ]
    if strength:
        columns = np.arange(width)
        before = columns * steps // width
        part = columns * steps - before * width
        levels = values[before] * (width - part) + values[before + 1] * part
        canvas.area(x, y + height - levels * height // (top * width), y + height, colour, strength)
    canvas.polyline(points, colour, radius)
