"""What makes two images the same to the caches: the identifier that joins block hashes and keys the encoder cache.

*bytes*: the hash of the file; saved anew it is another image. *pixels*: the hash of mode, shape and decoded pixels;
costs decoding, and a lossless re-save stays the same image, a JPEG does not. *client_id*: what the client says; rescues
everything, and a client that uses an id twice gets the answers to another image.

Other processor arguments give other embeddings, so they are part of every identifier.
"""

import json
from dataclasses import asdict
from hashlib import sha256
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from simworkers.engine.images import DEFAULT_LIMITS, ImageLimits, decode_image
from simworkers.engine.patches import ProcessorArgs

IdentityKind = Literal["bytes", "pixels", "client_id"]
IDENTITY_KINDS: tuple[IdentityKind, ...] = get_args(IdentityKind)
MAX_ID_LENGTH = 256


def identify_image(
    kind: IdentityKind,
    data: bytes,
    args: ProcessorArgs,
    client_id: str | None = None,
    limits: ImageLimits = DEFAULT_LIMITS,
) -> str:
    """The identifier of an image file: 64 hexadecimal digits.

    RefusedImage if pixels are wanted and the file is not taken; ValueError if an id is wanted and none was given.
    """
    if kind == "bytes":
        content = sha256(data).hexdigest()
    elif kind == "pixels":
        content = hash_pixels(decode_image(data, limits))
    elif kind == "client_id":
        if not client_id or len(client_id) > MAX_ID_LENGTH:
            raise ValueError(f"client_id: must have 1 … {MAX_ID_LENGTH} characters")
        content = client_id
    else:
        raise ValueError(f"identity: must be one of {', '.join(IDENTITY_KINDS)}, not {kind!r}")
    return sha256(json.dumps([kind, content, effective_args(args)]).encode()).hexdigest()


def hash_pixels(pixels: NDArray[np.uint8], mode: str = "RGB") -> str:
    """Hash of decoded pixels. Without the shape, 30 × 100 and 100 × 30 of equal bytes would be one image."""
    head = json.dumps([mode, pixels.dtype.str, pixels.shape]).encode()
    return sha256(head + b"\n" + np.ascontiguousarray(pixels).tobytes()).hexdigest()


def effective_args(args: ProcessorArgs) -> dict[str, int | None]:
    """The arguments that can change an image's patches; those of the other scheme are left out."""
    fields: dict[str, int | None] = asdict(args)
    del fields["max_tiles" if args.tile_px is None else "min_tokens"]
    return fields
