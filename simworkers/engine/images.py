"""Decoding a picture that a stranger sent: RGB pixels, or a refusal that says why.

Read: PNG, JPEG, WebP and GIF, one frame each. The kind is told by the first bytes and each decoder is called by itself,
so that no file reaches another one and Pillow's global limits play no part. Size and shape are checked in the header,
before a pixel is decoded.

What becomes of the pixels: EXIF orientation is applied, and EXIF that cannot be read is left aside with a line in the
log; transparent parts lie on white; of 16 bits a channel the upper eight stay; CMYK is converted by the plain formula;
colour profiles and gamma are not applied; PNG's key colour is honoured for palettes and for grey and RGB of 8 bits,
grey of 1 and of 16. Of a JPEG with several pictures the first counts. Refused: animations, truncated files, files that
announce more pixels than the limits allow. Not noticed: damage that still decodes, as flipped bits inside a JPEG do.
"""

import io
import logging
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import GifImagePlugin, Image, ImageFile, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

log = logging.getLogger(__name__)

ORIENTATION_TAG = 0x0112
# EXIF orientation → how to turn the stored pixels upright. 1 is upright, anything else means nothing.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# What Pillow raises for bytes that are not what they claim to be. Some it only warns of, which may be set to raise.
BROKEN = (
    OSError,
    SyntaxError,
    ValueError,
    struct.error,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    zlib.error,
    Warning,
)


class RefusedImage(ValueError):
    """The picture is not taken; the message says why, for whoever sent it."""


@dataclass(frozen=True)
class ImageLimits:
    """What a picture may have."""

    file_bytes: int = 8 * 2**20
    pixels: int = 2**24
    side_px: int = 8192
    aspect: int = 200  # longer side ÷ shorter side


DEFAULT_LIMITS = ImageLimits()


def decode_image(data: bytes, limits: ImageLimits = DEFAULT_LIMITS) -> NDArray[np.uint8]:
    """[height, width, 3] RGB pixels of a picture file, upright. RefusedImage if it is broken or outside the limits."""
    if len(data) > limits.file_bytes:
        raise RefusedImage(f"image: the file has {len(data)} bytes, more than {limits.file_bytes}")
    picture = _open(data, limits)
    _check_size(*picture.size, limits)
    try:
        if getattr(picture, "is_animated", False):
            raise RefusedImage("image: animations are not taken; send one frame")
        picture.load()
        _check_size(*picture.size, limits)  # a GIF's frame may be larger than its screen
        upright = _turn_upright(picture)
    except RefusedImage:
        raise
    except BROKEN as error:
        raise RefusedImage(f"image: the file is truncated or broken ({error})") from error
    except MemoryError as error:
        raise RefusedImage("image: decoding it takes more memory than it may") from error
    return _to_rgb(upright)


def _open(data: bytes, limits: ImageLimits) -> ImageFile.ImageFile:
    """The picture with its header read. Its kind follows from its first bytes."""
    stream = io.BytesIO(data)
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return PngImagePlugin.PngImageFile(stream)
        if data.startswith(b"\xff\xd8\xff"):
            return JpegImagePlugin.JpegImageFile(stream)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            # Its decoder makes room for all pixels at once, so the size is read before it starts.
            _check_size(*_webp_size(data), limits)
            return WebPImagePlugin.WebPImageFile(stream)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return GifImagePlugin.GifImageFile(stream)
    except RefusedImage:
        raise
    except BROKEN as error:
        raise RefusedImage(f"image: the header cannot be read ({error})") from error
    raise RefusedImage("image: neither PNG nor JPEG, WebP or GIF")


def _webp_size(data: bytes) -> tuple[int, int]:
    """(width, height) from the first chunk (RFC 9649, sections 2.5 to 2.7)."""
    kind = data[12:16]
    if kind == b"VP8X":
        fields = data[24:30].ljust(6, b"\0")
        return int.from_bytes(fields[:3], "little") + 1, int.from_bytes(fields[3:], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _check_size(width: int, height: int, limits: ImageLimits) -> None:
    if width < 1 or height < 1:
        raise RefusedImage(f"image: {width} × {height} has no pixels")
    if width * height > limits.pixels:
        raise RefusedImage(f"image: {width} × {height} are more than {limits.pixels} pixels")
    if max(width, height) > limits.side_px:
        raise RefusedImage(f"image: {width} × {height} has a side above {limits.side_px} px")
    if max(width, height) > limits.aspect * min(width, height):
        raise RefusedImage(f"image: {width} × {height} is narrower than 1 : {limits.aspect}")


def _turn_upright(picture: Image.Image) -> Image.Image:
    try:
        orientation = picture.getexif().get(ORIENTATION_TAG, 1)
    except BROKEN as error:
        log.info("malformed EXIF is left aside: %s", error)
        return picture
    turn = TURNS.get(orientation) if isinstance(orientation, int) else None
    return picture if turn is None else picture.transpose(turn)


def _to_rgb(picture: Image.Image) -> NDArray[np.uint8]:
    """[height, width, 3] of whatever mode the file had."""
    if picture.mode.startswith("I"):
        return _grey16_to_rgb(picture)
    if picture.has_transparency_data:
        seen = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    return np.array(picture.convert("RGB"))


def _grey16_to_rgb(picture: Image.Image) -> NDArray[np.uint8]:
    """[height, width, 3] of 16-bit grey; Pillow's own conversion clips at 255 instead."""
    values = np.asarray(picture).astype(np.int64)
    grey = np.clip(values >> 8, 0, 255).astype(np.uint8)
    if isinstance(key := picture.info.get("transparency"), int):
        grey[values == key] = 255
    return np.repeat(grey[:, :, None], 3, axis=2)
