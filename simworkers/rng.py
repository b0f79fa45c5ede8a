"""Exact counter-based draws: integers from Philox, shaped by integer arithmetic alone.

The same on every machine, thread count and instruction set, which float normal generators are not.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

UIntArray = NDArray[np.uint64]


class Stream:
    """An endless stream of 64-bit integers, named by a seed and any further words or numbers."""

    def __init__(self, seed: int, *name: str | int) -> None:
        digest = hashlib.blake2b(repr((seed, *name)).encode(), digest_size=16).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest, "little"))

    def words(self, count: int) -> UIntArray:
        """[count] uniform 64-bit integers."""
        return self._philox.random_raw(count)

    def integers(self, below: int, count: int) -> NDArray[np.int64]:
        """[count] uniform integers in [0, below); exact, because words above the last whole multiple are redrawn."""
        if not 0 < below < 2**63:
            raise ValueError(f"below must lie in 1 … 2**63 − 1, not {below}")
        limit = np.uint64(2**64 - 1 - 2**64 % below)  # the largest word that is kept
        kept = np.empty(0, dtype=np.uint64)
        while len(kept) < count:
            words = self.words(count - len(kept))
            kept = np.concatenate([kept, words[words <= limit]])
        return (kept % np.uint64(below)).astype(np.int64)

    def integer(self, below: int) -> int:
        """One uniform integer in [0, below)."""
        return int(self.integers(below, 1)[0])

    def permutation(self, size: int) -> NDArray[np.int64]:
        """[size] a permutation of 0 … size − 1; equal sort keys are next to impossible and keep their order."""
        return np.argsort(self.words(size), kind="stable")

    def halves(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """[...] for each count n, a draw from Binomial(n, ½): the ones among n fair bits."""
        flat = counts.reshape(-1)
        if not flat.size or not flat.max():
            return np.zeros_like(counts)
        width = int(flat.max() + 63) // 64
        words = self.words(flat.size * width).reshape(flat.size, width)
        bits = np.clip(flat[:, None] - 64 * np.arange(width), 0, 64)  # bits of each word that count
        mask = np.where(
            bits > 0, np.uint64(2**64 - 1) >> (64 - np.maximum(bits, 1)).astype(np.uint64), np.uint64(0)
        )
        ones: NDArray[np.int64] = np.bitwise_count(words & mask).sum(axis=1, dtype=np.int64)
        return ones.reshape(counts.shape)


def equal_multinomial(stream: Stream, total: int, cells: int, draws: int) -> NDArray[np.int64]:
    """[draws, cells] Multinomial(total, 1/cells), exact: halved again and again by fair bits.

    Raises ValueError unless cells is a power of two.
    """
    if cells < 1 or cells & (cells - 1):
        raise ValueError(f"cells must be a power of two, not {cells}")
    counts = np.full((draws, 1), total, dtype=np.int64)
    while counts.shape[1] < cells:
        left = stream.halves(counts)
        counts = np.stack([left, counts - left], axis=2).reshape(draws, -1)
    return counts
