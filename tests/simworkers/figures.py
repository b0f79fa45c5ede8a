"""What holds of every figure of every lab."""

import base64
import re

import altair

from simworkers.jobs import Figure


def check_spec(figure: Figure) -> None:
    """It keeps the Vega-Lite schema."""
    altair.Chart.from_dict(figure.spec, validate=True)


def check_pictures(figure: Figure) -> None:
    """SVGs without a background, and a PNG."""
    for svg in (figure.svg_light, figure.svg_dark):
        assert svg.startswith("<svg")
        assert "<rect" not in svg  # a ground would be one
        assert 'fill="white"' not in svg.split("</g>", 1)[0]
    assert base64.b64decode(figure.png_base64).startswith(b"\x89PNG")


def check_dark_ink(figure: Figure) -> None:
    """The dark picture is the light one in other ink."""
    colour = re.compile(r"#[0-9A-Fa-f]{6}|rgb\([^)]*\)")
    assert figure.svg_light != figure.svg_dark
    assert colour.sub("", figure.svg_light) == colour.sub("", figure.svg_dark)


def check_text(figure: Figure) -> None:
    """All of it can be read on its ground."""
    for svg, ground in ((figure.svg_light, 255), (figure.svg_dark, 24)):
        inks = re.findall(r"<text[^>]*fill=\"#([0-9A-Fa-f]{6})\"", svg)
        assert inks
        for ink in inks:
            assert contrast(ink, ground) >= 4.5


def contrast(ink: str, grey: int) -> float:
    """WCAG contrast of a colour on a grey ground."""
    first, second = _luminance(bytes.fromhex(ink)), _luminance(bytes((grey,) * 3))
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


def _luminance(rgb: bytes) -> float:
    linear = [p / 255 / 12.92 if p / 255 <= 0.03928 else ((p / 255 + 0.055) / 1.055) ** 2.4 for p in rgb]
    return float(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])


def words(svg: str) -> str:
    """All text of a picture."""
    return " ".join(re.findall(r">([^<]+)</t", svg))
