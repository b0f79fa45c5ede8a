"""A trace's file as lines of bytes, plain or gzip, never more of it at once than the limits allow."""

import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO


class BadTrace(ValueError):
    """Nothing of this file can be used, or it is too large; the message says why."""


def read_lines(source: BinaryIO, max_text_bytes: int, max_line_bytes: int) -> Iterator[bytes]:
    """Lines of a plain or gzip file, told apart by its first bytes. BadTrace above the limits."""
    buffered: io.BufferedReader[Any] = io.BufferedReader(source)
    chunks = (
        _inflate(buffered) if buffered.peek(2)[:2] == b"\x1f\x8b" else iter(lambda: buffered.read(2**18), b"")
    )
    whole = begun = 0
    rest: list[bytes] = []  # of a line that has not ended; joined once, since one line may be all of the file
    for chunk in chunks:
        whole += len(chunk)
        if whole > max_text_bytes:
            raise BadTrace(f"the trace has more than {max_text_bytes // 2**20} MiB of text")
        first, *others = chunk.split(b"\n")
        rest.append(first)
        begun += len(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest, begun = [others[-1]], len(others[-1])
        if begun > max_line_bytes:
            raise BadTrace(f"a line has more than {max_line_bytes // 2**20} MiB")
    if begun:
        yield b"".join(rest)


def _inflate(source: "io.BufferedReader[Any]") -> Iterator[bytes]:
    """gzip, member after member, in pieces of bounded size however much a member would swell.

    Zeros behind a member are padding, as a tape or a block device leaves it: gzip reads over them, and so do we.
    """
    unzip, has_ended = zlib.decompressobj(wbits=31), True
    fed = b""
    while fed or (fed := source.read(2**16)):
        if has_ended and not (fed := fed.lstrip(b"\0")):
            continue
        has_ended = False
        try:
            piece = unzip.decompress(fed, 2**18)
        except zlib.error as error:
            raise BadTrace(f"this is no whole gzip file: {error}") from error
        if piece:
            yield piece
        fed = unzip.unconsumed_tail
        if unzip.eof:
            fed, unzip, has_ended = unzip.unused_data, zlib.decompressobj(wbits=31), True
    if not has_ended:
        raise BadTrace("this gzip file ends in the middle")
