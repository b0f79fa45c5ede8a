"""Embeddings of encoded images, so that a long prefill can be cut into chunks, and an image seen again is not encoded.

The budget is counted in embeddings. An entry that somebody holds stays; of the others the one unused longest goes.
"""

from collections import OrderedDict
from dataclasses import dataclass

import torch

from simworkers.engine.kv_cache import CacheInUse
from simworkers.engine.request import EmbeddingsKey


@dataclass
class _Entry:
    length: int  # embeddings
    holders: int = 0
    embeddings: torch.Tensor | None = None  # [length, dim]; None until it is encoded


class EncoderCache:
    """(identifier, length) → embeddings. keep: whether an entry outlives its last holder, so that it is found again."""

    def __init__(self, capacity: int, *, keep: bool = True) -> None:
        if capacity < 0:
            raise ValueError(f"capacity: must be at least 0 embeddings, not {capacity}")
        self.capacity = capacity
        self.keep = keep
        self._entries: dict[EmbeddingsKey, _Entry] = {}
        self._unheld: OrderedDict[EmbeddingsKey, None] = OrderedDict()  # the one unused longest first
        self._used = 0
        self._unheld_length = 0
        self.peak = 0  # most embeddings that were stored or reserved at once

    @property
    def used(self) -> int:
        """Embeddings that are stored, or have their room reserved."""
        return self._used

    def __contains__(self, key: EmbeddingsKey) -> bool:
        return key in self._entries

    def is_held(self, key: EmbeddingsKey) -> bool:
        """Stored or reserved, and in use."""
        return key in self._entries and key not in self._unheld

    def keys(self) -> tuple[EmbeddingsKey, ...]:
        return tuple(self._entries)

    def has_room(self, length: int) -> bool:
        """Whether a new entry of this many embeddings fits once everything unheld is gone."""
        return length <= self.capacity - self._used + self._unheld_length

    def hold(self, key: EmbeddingsKey) -> bool:
        """Hold an entry, or reserve room for one that is to be encoded; True if it was there already.

        ValueError without room: ask `has_room` before.
        """
        entry = self._entries.get(key)
        if entry is not None:
            if not entry.holders:
                del self._unheld[key]
                self._unheld_length -= entry.length
            entry.holders += 1
            return True
        length = key[1]
        if not self.has_room(length):
            raise ValueError(f"{key[0]!r} needs room for {length} embeddings")
        while self._used + length > self.capacity:
            self._drop(next(iter(self._unheld)))
        self._entries[key] = _Entry(length, holders=1)
        self._used += length
        self.peak = max(self.peak, self._used)
        return False

    def store(self, key: EmbeddingsKey, embeddings: torch.Tensor) -> None:
        """embeddings: [length, dim] of an entry that was reserved."""
        entry = self._entries[key]
        assert len(embeddings) == entry.length, (
            f"{len(embeddings)} embeddings for {entry.length} placeholders"
        )
        entry.embeddings = embeddings

    def read(self, key: EmbeddingsKey) -> torch.Tensor:
        """[length, dim]"""
        embeddings = self._entries[key].embeddings
        assert embeddings is not None, f"{key[0]!r} has not been encoded"
        return embeddings

    def release(self, key: EmbeddingsKey) -> None:
        """One holder less. What was never encoded is dropped with its last holder."""
        entry = self._entries[key]
        entry.holders -= 1
        if entry.holders:
            return
        self._unheld[key] = None
        self._unheld_length += entry.length
        if entry.embeddings is None or not self.keep:
            self._drop(key)

    def reset(self) -> None:
        """Forget everything. CacheInUse while any entry is held."""
        held = len(self._entries) - len(self._unheld)
        if held:
            raise CacheInUse(f"{held} of {len(self._entries)} encoded images are in use")
        while self._unheld:
            self._drop(next(iter(self._unheld)))

    def check_integrity(self) -> None:
        """AssertionError unless sizes, holders and the order of eviction agree."""
        assert self._used == sum(entry.length for entry in self._entries.values()) <= max(self.capacity, 0)
        unheld = {name for name, entry in self._entries.items() if not entry.holders}
        assert unheld == set(self._unheld), "entries and the order of eviction disagree"
        assert self._unheld_length == sum(self._entries[name].length for name in unheld)

    def _drop(self, key: EmbeddingsKey) -> None:
        del self._unheld[key]
        length = self._entries.pop(key).length
        self._used -= length
        self._unheld_length -= length
