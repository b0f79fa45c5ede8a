"""What may be a learner's own picture. Standard library alone; decoding it is left to the simulation's process."""

import base64
import binascii

MAX_OWN_IMAGE_BYTES = 512 * 1024
_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")


def decode_own_image(text: str) -> bytes:
    """The file behind base64. ValueError otherwise."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"is no base64: {error}") from error


def refuse_what_is_no_image(text: str) -> None:
    """ValueError for a file that is too large, or that does not start like a picture of a kind that is taken."""
    data = decode_own_image(text)
    if len(data) > MAX_OWN_IMAGE_BYTES:
        raise ValueError(f"has {len(data):,} bytes; at most {MAX_OWN_IMAGE_BYTES:,}")
    is_webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    if not is_webp and not data.startswith(_STARTS):
        raise ValueError("does not start like a PNG, JPEG, WebP or GIF")
