"""What a client does with a picture each time it sends it again, and how much of the picture that changes.

`python -m simworkers.multimodal.clients` prints the shares of changed values for every kind of picture; the table in
docs/labs/multimodal-pictures.md is its output.
"""

import argparse
import io
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

from simworkers.engine.images import decode_image
from simworkers.multimodal.pictures import PICTURE_KINDS, draw_picture

Pixels = NDArray[np.uint8]  # [height, width, 3] RGB
Behaviour = Literal["same_bytes", "lossless_resave", "jpeg", "png_then_jpeg", "resize", "normalised"]
BEHAVIOURS: tuple[Behaviour, ...] = get_args(Behaviour)
LEAST_SIDE_PX = 64  # below, a client resizes no further
QUALITIES = (75, 85, 90, 95)
ROUNDS = 6


@dataclass(frozen=True)
class ClientArgs:
    """How a client encodes; ValueError, which names the field, outside the bounds."""

    quality: int = 85  # of JPEG
    chroma: Literal["4:2:0", "4:4:4"] = "4:2:0"  # whether JPEG halves the resolution of colour
    resize_percent: int = 90  # of the sides, each time
    normal_side_px: int = 1024  # the longer side after normalising, at most

    def __post_init__(self) -> None:
        for name, low, high in (
            ("quality", 1, 100),
            ("resize_percent", 10, 99),
            ("normal_side_px", 64, 4096),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name}: must lie in {low} … {high}, not {getattr(self, name)}")
        if self.chroma not in ("4:2:0", "4:4:4"):
            raise ValueError(f"chroma: must be 4:2:0 or 4:4:4, not {self.chroma!r}")


class Client:
    """Sends one picture once a turn. What it sends follows from the file, the behaviour and the turn alone."""

    def __init__(self, behaviour: Behaviour, file: bytes, args: ClientArgs | None = None) -> None:
        """`file` is what the user attached. RefusedImage if it is no picture that can be decoded."""
        if behaviour not in BEHAVIOURS:
            raise ValueError(f"behaviour: must be one of {', '.join(BEHAVIOURS)}, not {behaviour!r}")
        self.behaviour = behaviour
        self.args = args or ClientArgs()
        self.file = file
        self.pixels = decode_image(file)
        self._sent: list[bytes] = []

    def send(self, turn: int) -> bytes:
        """The file that goes out in a turn, counted from 1."""
        if turn < 1:
            raise ValueError(f"turn: must be at least 1, not {turn}")
        while len(self._sent) < turn:
            self._sent.append(self._first() if not self._sent else self._again(len(self._sent) + 1))
        return self._sent[turn - 1]

    def _first(self) -> bytes:
        match self.behaviour:
            case "lossless_resave":
                return encode_png(self.pixels, level=1, comment="turn 1")
            case "jpeg":
                return self._jpeg(self.pixels)
            case "normalised":
                return self._jpeg(shrink_to(self.pixels, self.args.normal_side_px))
            case "png_then_jpeg" | "resize":
                return encode_png(self.pixels)
            case _:
                return self.file

    def _again(self, turn: int) -> bytes:
        last = self._sent[-1]
        match self.behaviour:
            case "lossless_resave":
                return encode_png(self.pixels, level=1 + (turn - 1) % 3, comment=f"turn {turn}")
            case "jpeg":
                return self._jpeg(decode_image(last))
            case "png_then_jpeg":
                return self._jpeg(self.pixels)
            case "resize":
                return encode_png(resize_by(decode_image(last), self.args.resize_percent))
            case _:
                return last

    def _jpeg(self, pixels: Pixels) -> bytes:
        return encode_jpeg(pixels, self.args.quality, self.args.chroma)


def encode_png(pixels: Pixels, level: int = 2, comment: str = "") -> bytes:
    text = PngImagePlugin.PngInfo()
    if comment:
        text.add_text("Comment", comment)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", compress_level=level, pnginfo=text)
    return stream.getvalue()


def encode_jpeg(pixels: Pixels, quality: int, chroma: str = "4:2:0") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=quality, subsampling=chroma)
    return stream.getvalue()


def resize_by(pixels: Pixels, percent: int) -> Pixels:
    """Both sides scaled, rounded half up; left alone where a side would fall below LEAST_SIDE_PX."""
    height, width = ((side * percent + 50) // 100 for side in pixels.shape[:2])
    if min(height, width) < LEAST_SIDE_PX:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC))


def shrink_to(pixels: Pixels, side_px: int) -> Pixels:
    """The longer side at most `side_px`, the shape kept; a smaller picture stays as it is."""
    height, width = pixels.shape[:2]
    longer = max(height, width)
    if longer <= side_px:
        return pixels
    size = (max(1, width * side_px // longer), max(1, height * side_px // longer))
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC))


def changed_share(one: Pixels, other: Pixels) -> float:
    """The share of values, three a pixel, that differ. ValueError if the shapes do: nothing lies upon anything then."""
    if one.shape != other.shape:
        raise ValueError(f"pixels: shapes {one.shape} and {other.shape} cannot be compared")
    return int(np.count_nonzero(one != other)) / one.size


def shares_by_turn(client: Client, turns: int) -> list[float]:
    """[turns] of what each turn's file decodes to, changed_share against the turn before, or at first the user's file.

    ValueError where the behaviour changes the size.
    """
    pictures = [client.pixels, *(decode_image(client.send(turn)) for turn in range(1, turns + 1))]
    return [changed_share(one, other) for one, other in pairwise(pictures)]


def change_table(seed: int, width: int, height: int) -> str:
    """Markdown: a row for each kind of picture, chroma and quality, with the shares in per cent."""
    heads = [
        "picture",
        "chroma",
        "quality",
        "lossless",
        "first JPEG",
        *(f"again {n}" for n in range(1, ROUNDS)),
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---" * 3 + "|--:" * (len(heads) - 3) + "|"]
    for kind in PICTURE_KINDS:
        file = encode_png(draw_picture(kind, seed, width, height))
        lossless = max(shares_by_turn(Client("lossless_resave", file), ROUNDS))
        for chroma in ("4:2:0", "4:4:4"):
            for quality in QUALITIES:
                shares = shares_by_turn(Client("jpeg", file, ClientArgs(quality, chroma)), ROUNDS)
                cells = [kind, chroma, str(quality), *(f"{100 * share:.2f}" for share in (lossless, *shares))]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m simworkers.multimodal.clients",
        description="How much of a picture changes when it is saved again, in per cent of its values.",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=800)
    options = parser.parse_args()
    print(change_table(options.seed, options.width, options.height))


if __name__ == "__main__":
    main()
