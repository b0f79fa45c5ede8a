"""Embeddings of encoded images, so that a long prefill can be cut into chunks, and an image seen again is not encoded.

The budget is counted in embeddings. An entry that somebody holds stays; of the others the one unused longest goes.
"""

from collections import OrderedDict
from dataclasses import dataclass

import torch

from simworkers.engine.kv_cache import CacheInUse


@dataclass
class _Entry:
    length: int  # embeddings
    holders: int = 0
    embeddings: torch.Tensor | None = None  # [length, dim]; None until it is encoded


class EncoderCache:
    """identifier → embeddings. keep: whether entries outlive their last holder (off: nothing is ever found again)."""

    def __init__(self, capacity: int, *, keep: bool = True) -> None:
        if capacity < 0:
            raise ValueError(f"capacity: must be at least 0 embeddings, not {capacity}")
        self.capacity = capacity
        self.keep = keep
        self._entries: dict[str, _Entry] = {}
        self._unheld: OrderedDict[str, None] = OrderedDict()  # the one unused longest first
        self._used = 0
        self._unheld_length = 0

    @property
    def used(self) -> int:
        """Embeddings that are stored, or have their room reserved."""
        return self._used

    def __contains__(self, identifier: str) -> bool:
        return identifier in self._entries

    def is_held(self, identifier: str) -> bool:
        """Stored or reserved, and in use."""
        return identifier in self._entries and identifier not in self._unheld

    def identifiers(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def has_room(self, length: int) -> bool:
        """Whether a new entry of this many embeddings fits once everything unheld is gone."""
        return length <= self.capacity - self._used + self._unheld_length

    def hold(self, identifier: str, length: int) -> bool:
        """Hold an entry, or reserve room for one that is to be encoded; True if it was there already.

        ValueError without room: ask `has_room` before. ValueError for another length under the same identifier.
        """
        entry = self._entries.get(identifier)
        if entry is not None:
            if entry.length != length:
                raise ValueError(f"{identifier!r} has {entry.length} embeddings, not {length}")
            if not entry.holders:
                del self._unheld[identifier]
                self._unheld_length -= entry.length
            entry.holders += 1
            return True
        if not self.has_room(length):
            raise ValueError(f"{identifier!r} needs room for {length} embeddings")
        while self._used + length > self.capacity:
            self._drop(next(iter(self._unheld)))
        self._entries[identifier] = _Entry(length, holders=1)
        self._used += length
        return False

    def store(self, identifier: str, embeddings: torch.Tensor) -> None:
        """embeddings: [length, dim] of an entry that was reserved."""
        entry = self._entries[identifier]
        assert len(embeddings) == entry.length, (
            f"{len(embeddings)} embeddings for {entry.length} placeholders"
        )
        entry.embeddings = embeddings

    def read(self, identifier: str) -> torch.Tensor:
        """[length, dim]"""
        embeddings = self._entries[identifier].embeddings
        assert embeddings is not None, f"{identifier!r} has not been encoded"
        return embeddings

    def release(self, identifier: str) -> None:
        """One holder less. What was never encoded is dropped with its last holder."""
        entry = self._entries[identifier]
        entry.holders -= 1
        if entry.holders:
            return
        self._unheld[identifier] = None
        self._unheld_length += entry.length
        if entry.embeddings is None or not self.keep:
            self._drop(identifier)

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

    def _drop(self, identifier: str) -> None:
        del self._unheld[identifier]
        length = self._entries.pop(identifier).length
        self._used -= length
        self._unheld_length -= length
