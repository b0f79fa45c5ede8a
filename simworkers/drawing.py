"""From a Vega-Lite spec to a figure: light and dark SVG without background, PNG on white. Needs no network.

Specs are plain dictionaries: the schema is the interface that front ends get, and no drawing library has to be
imported to write one down.
"""

import base64
import copy
import json
from typing import Any

import vl_convert

from simworkers.catalog import Figure, FigureSpec

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
RENDERED_WIDTH = 620  # px; a page scales the SVG and lets the spec fill its container
PNG_SCALE = 2

# Okabe and Ito's palette: told apart with any kind of colour vision, on light and dark ground.
BLUE, ORANGE, GREEN, VERMILION, SKY, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#8C8C8C"

_INK = {"both": "#767676", "light": "#333333", "dark": "#E4E4E4"}
_GRID = {"both": "#80808040", "light": "#DDDDDD", "dark": "#4A4A4A"}


def finish(figure: FigureSpec, spec: dict[str, Any], table: list[dict[str, Any]]) -> Figure:
    """Render a spec. table: the rows that it shows, for readers who want numbers."""
    whole = {"$schema": SCHEMA, "background": None, "width": "container", "height": 300} | spec
    return Figure(
        title=figure.title,
        caption=figure.caption,
        spec=whole | {"config": _config("both")},
        table=table,
        svg_light=vl_convert.vegalite_to_svg(_fixed(whole, "light")),
        svg_dark=vl_convert.vegalite_to_svg(_fixed(whole, "dark")),
        png_base64=_png(whole),
    )


def _png(spec: dict[str, Any]) -> str:
    image = vl_convert.vegalite_to_png(_fixed(spec, "light") | {"background": "white"}, scale=PNG_SCALE)
    return base64.b64encode(image).decode()


def _fixed(spec: dict[str, Any], ground: str) -> str | dict[str, Any]:
    """A copy with a width in pixels and the colours of one ground; nobody can move a slider in a picture."""
    fixed = copy.deepcopy(spec) | {"width": RENDERED_WIDTH, "config": _config(ground)}
    for parameter in fixed.get("params", []):
        parameter.pop("bind", None)
    return json.loads(json.dumps(fixed))  # type: ignore[no-any-return]


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
