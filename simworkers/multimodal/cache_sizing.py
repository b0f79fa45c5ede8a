"""What an encoder cache costs and saves, for every capacity, over the pictures of one run in their order.

Two kinds of GPU time are added: encoding what was not found, and the cache's share of the GPU's HBM for as long as the
run lasts. The second makes memory comparable with work, as the five-minute rule does for pages of a disk (Gray and
Putzolu, 1987): a picture that comes back later than its encoding is worth should be encoded again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from simworkers.engine.encoder_cache import EncoderCache
from simworkers.engine.request import EmbeddingsKey


@dataclass(frozen=True)
class Access:
    """One picture that a turn needs embeddings of. encode_us: what encoding it alone takes."""

    key: EmbeddingsKey
    encode_us: int


@dataclass(frozen=True)
class HbmPrice:
    """GPU time that a cache takes by lying in HBM."""

    embedding_bytes: int
    hbm_bytes: int
    window_us: int

    def cost_us(self, embeddings: int) -> float:
        return embeddings * self.embedding_bytes * self.window_us / self.hbm_bytes


def encode_us(accesses: Iterable[Access], capacity: int) -> int:
    """GPU time to encode what a cache of this many embeddings does not hold when it is needed.

    Each picture is held for its own moment alone, as where turns do not overlap.
    """
    cache, spent_us = EncoderCache(capacity), 0
    for access in accesses:
        if not cache.hold(access.key):
            cache.store(access.key, torch.empty(access.key[1], 0))
            spent_us += access.encode_us
        cache.release(access.key)
    return spent_us


def cost_us(accesses: Sequence[Access], capacity: int, price: HbmPrice) -> float:
    """Encoding and memory together."""
    return encode_us(accesses, capacity) + price.cost_us(capacity)


def useful_capacities(accesses: Iterable[Access], least: int) -> list[int]:
    """Capacities at which something more may be found, the smallest first: the only ones that can be cheapest.

    An access finds its picture where the cache holds what was used since, itself included. Capacities between two such
    sums find no more than the lower one and cost more. ValueError where a picture is larger than `least`.
    """
    latest: list[EmbeddingsKey] = []  # the one used last stands first
    found = {least}
    for access in accesses:
        if access.key[1] > least:
            raise ValueError(f"least: a picture has {access.key[1]} embeddings, more than {least}")
        if access.key in latest:
            depth = latest.index(access.key)
            found.add(max(least, sum(length for _, length in latest[: depth + 1])))
            latest.remove(access.key)
        latest.insert(0, access.key)
    return sorted(found)


def cheapest(accesses: Sequence[Access], least: int, price: HbmPrice) -> int:
    """The capacity of least cost, tried exactly; the smallest of equals."""
    return min(useful_capacities(accesses, least), key=lambda capacity: cost_us(accesses, capacity, price))
