"""From a Vega-Lite spec to a figure: light and dark SVG without background, PNG on white. Needs no network.

Specs are plain dictionaries: the schema is the interface that front ends get, and no drawing library has to be
imported to write one down.
"""

import base64
import copy
import struct
import zlib
from typing import Any

import vl_convert

from simworkers.jobs import Figure, FigureSpec

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
RENDERED_WIDTH = 620  # px; a page scales the SVG and lets the spec fill its container
PNG_SCALE = 2
_PNG_START = b"\x89PNG\r\n\x1a\n"

# Okabe and Ito's palette: told apart with any kind of colour vision, on light and dark ground.
BLUE, ORANGE, GREEN, VERMILION, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#8C8C8C"

_INK = {"both": "#767676", "light": "#333334", "dark": "#E4E4E4"}
_GRID = {"both": "#80808040", "light": "#DDDDDE", "dark": "#4A4A4A"}


Spec = dict[str, Any]
Rows = list[dict[str, Any]]


def headline(text: str | Spec, below: str) -> Spec:
    """What one sees, and how it was measured."""
    return {"text": text, "subtitle": below, "subtitleFontSize": 12, "offset": 12}


def tooltip(**titles: str) -> Rows:
    """A tooltip of these fields under these titles."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def finish(figure: FigureSpec, spec: dict[str, Any], table: list[dict[str, Any]]) -> Figure:
    """Render a spec. table: the rows that it shows, for readers who want numbers."""
    whole = {"$schema": SCHEMA, "background": "transparent", "width": "container", "height": 300} | spec
    svg = vl_convert.vegalite_to_svg(_fixed(whole))
    return Figure(
        title=figure.title,
        caption=figure.caption,
        spec=whole | {"config": _config("both")},
        table=table,
        svg_light=svg,
        svg_dark=_darken(svg),
        png_base64=_png(whole),
    )


def _png(spec: dict[str, Any]) -> str:
    image = vl_convert.vegalite_to_png(_fixed(spec) | {"background": "white"}, scale=PNG_SCALE)
    return base64.b64encode(_squeeze(image)).decode()


def _squeeze(png: bytes) -> bytes:
    """The same picture, its pixels packed by zlib's best effort: a tenth of what the renderer's own packing takes."""
    start, pixels, chunks = len(_PNG_START), b"", []
    while start < len(png):
        (length,) = struct.unpack_from(">I", png, start)
        kind, body = png[start + 4 : start + 8], png[start + 8 : start + 8 + length]
        if kind == b"IDAT":
            pixels += body
        else:
            chunks.append((kind, body))
        start += length + 12
    chunks.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))  # just before IEND
    packed = (struct.pack(">I", len(body)) + kind + body + _checksum(kind + body) for kind, body in chunks)
    return _PNG_START + b"".join(packed)


def _checksum(chunk: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(chunk))


def _darken(svg: str) -> str:
    """The same picture in the ink of dark pages: only text, axes and grid use these two colours."""
    for part in (_INK, _GRID):
        svg = svg.replace(part["light"], part["dark"])
    return svg


def _fixed(spec: dict[str, Any]) -> dict[str, Any]:
    """A copy with a width in pixels, for light ground; nobody can move a slider in a picture."""
    # Marks are not labelled one by one: the table says it better, and 64 GPUs would double the file.
    config = _config("light") | {"mark": {"aria": False}}
    fixed = copy.deepcopy(spec) | {"width": RENDERED_WIDTH, "config": config}
    for parameter in fixed.get("params", []):
        parameter.pop("bind", None)
    return fixed


def _config(ground: str) -> dict[str, Any]:
    ink, grid = _INK[ground], _GRID[ground]
    text = {
        "labelColor": ink,
        "titleColor": ink,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": text | {"gridColor": grid, "domainColor": ink, "tickColor": ink},
        "legend": text | {"orient": "top", "title": None, "symbolType": "square", "columns": 3},
        "title": {"color": ink, "subtitleColor": ink, "fontSize": 14, "anchor": "start", "fontWeight": 600},
        "text": {"color": ink, "fontSize": 12},
        "rule": {"color": ink},
    }


def colours(palette: dict[str, str]) -> dict[str, Any]:
    """A scale that names the colour of each value and keeps their order."""
    return {"domain": list(palette), "range": list(palette.values())}
