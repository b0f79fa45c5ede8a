"""Real text in domains, all written for this project, cut into small pieces and cycled.

A corpus is a ring: after its last piece comes its first. Each place where a stretch of traffic passes that joint is
a seam; `Traffic.seams` counts them.
"""

import functools
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simworkers.rng import Stream

CORPORA = Path(__file__).parent / "corpora"
BUCKETS = 8192  # token ids; pieces that share a bucket share an embedding

# Up to four letters with the blank before them, up to three digits, one other mark, or a stretch of white space.
_PIECE = re.compile(r" ?[^\W\d_]{1,4}|\d{1,3}| ?[^\w\s]|_|\s+")


def tokenize(text: str) -> NDArray[np.int64]:
    """Token ids of a text: pieces of up to four letters, hashed into BUCKETS."""
    return np.array([zlib.crc32(piece.encode()) % BUCKETS for piece in _PIECE.findall(text)], dtype=np.int64)


@dataclass(frozen=True)
class Library:
    """All corpora laid end to end. D domains, P positions."""

    domains: tuple[str, ...]
    tokens: NDArray[np.int64]  # [P] token ids
    starts: NDArray[np.int64]  # [D] first position of each domain's ring
    lengths: NDArray[np.int64]  # [D]

    def previous(self, steps: int) -> NDArray[np.int64]:
        """[P] token id that stands `steps` before each position in its ring."""
        rings = zip(self.starts, self.lengths, strict=True)
        return np.concatenate(
            [np.roll(self.tokens[start : start + length], steps) for start, length in rings]
        )


def build_library(texts: Mapping[str, str]) -> Library:
    """One ring for each domain's text, in this order. ValueError for a text without any token."""
    rings = [tokenize(text) for text in texts.values()]
    for domain, ring in zip(texts, rings, strict=True):
        if not len(ring):
            raise ValueError(f"{domain}: there is no token in this text")
    lengths = np.array([len(ring) for ring in rings], dtype=np.int64)
    return Library(tuple(texts), np.concatenate(rings), np.cumsum(lengths) - lengths, lengths)


@functools.cache
def load_library(domains: tuple[str, ...]) -> Library:
    """The committed corpora of these domains, in this order."""
    return build_library({name: (CORPORA / f"{name}.txt").read_text(encoding="utf-8") for name in domains})


def join(first: Library, second: Library) -> Library:
    """The rings of both, the second one's after the first one's."""
    return Library(
        (*first.domains, *second.domains),
        np.concatenate([first.tokens, second.tokens]),
        np.concatenate([first.starts, second.starts + len(first.tokens)]),
        np.concatenate([first.lengths, second.lengths]),
    )


@dataclass(frozen=True)
class Traffic:
    """Where the tokens of one engine step come from. T tokens."""

    positions: NDArray[np.int64]  # [T] into Library.tokens
    seams: int  # stretches that pass the joint of their ring


def draw_traffic(library: Library, mix: tuple[int, ...], tokens: int, chunk: int, stream: Stream) -> Traffic:
    """One step: stretches of `chunk` tokens (the last may be shorter) from domains in the proportion of `mix`.

    Systematic sampling in integers: one drawn offset, then equal strides. So every domain gets its exact share of
    the stretches, rounded down or up by chance, in an order that is drawn as well.
    """
    stretches, total = -(-tokens // chunk), sum(mix)
    ticket = stream.integer(total) + total * stream.permutation(stretches)
    domain = np.searchsorted(np.cumsum(mix) * stretches, ticket, side="right")
    length = library.lengths[domain]
    offset = _draw_below(stream, length)
    within = (offset[:, None] + np.arange(chunk)) % length[:, None]
    positions = (library.starts[domain][:, None] + within).reshape(-1)[:tokens]
    return Traffic(positions, int((offset + chunk > length).sum()))


def _draw_below(stream: Stream, limits: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n] one uniform integer below each limit, drawn domain by domain in order of the limits' values."""
    drawn = np.empty_like(limits)
    for limit in np.unique(limits):
        here = limits == limit
        drawn[here] = stream.integers(int(limit), int(here.sum()))
    return drawn
