"""Names of full KV blocks: a chain of (parent's hash, token ids, extra keys), so that equal names mean equal KV.

KV of a token depends on everything before it. A block's name therefore covers its own tokens, by way of its parent all
earlier ones, and whatever else decides KV although no token id shows it: which image stands behind placeholders and
where it begins, a salt that keeps tenants apart, the version of the weights.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b

from simworkers.engine.request import ImageInput

Key = tuple[str, str | int, int]
ROOT = b""  # parent of a sequence's first block


def extra_keys(
    start: int, stop: int, images: Sequence[ImageInput], salt: str | None, weight_version: int | None
) -> tuple[Key, ...]:
    """What joins the token ids of the block [start, stop).

    An image counts in every block that it overlaps, by identifier and by its first placeholder's place relative to the
    block: the same image one token later is other KV, although all ids of a block may be placeholders. The salt stands
    on the first block alone; the chain hands it on.
    """
    keys: list[Key] = [
        ("image", image.identifier, image.offset - start)
        for image in images
        if image.offset < stop and start < image.offset + image.length
    ]
    if salt is not None and start == 0:
        keys.append(("salt", salt, 0))
    if weight_version is not None:
        keys.append(("weights", weight_version, 0))
    return tuple(keys)


def hash_block(parent: bytes, tokens: Sequence[int], keys: tuple[Key, ...]) -> bytes:
    """16 bytes. Lengths are hashed as well, so that no two different inputs run into the same byte string."""
    packed = struct.pack(f"<{len(tokens) + 1}q", len(tokens), *tokens)
    digest = blake2b(parent, digest_size=16)
    digest.update(packed)
    if keys:
        digest.update(repr(keys).encode())
    return digest.digest()


def extend_hashes(
    hashes: list[bytes],
    tokens: Sequence[int],
    block_size: int,
    images: Sequence[ImageInput] = (),
    salt: str | None = None,
    weight_version: int | None = None,
) -> None:
    """Append the names of all full blocks of `tokens` that `hashes` does not have yet."""
    for start in range(len(hashes) * block_size, len(tokens) - block_size + 1, block_size):
        stop = start + block_size
        keys = extra_keys(start, stop, images, salt, weight_version)
        hashes.append(hash_block(hashes[-1] if hashes else ROOT, tokens[start:stop], keys))
