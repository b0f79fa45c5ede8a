"""Blocks of the paged KV cache: who holds them, which of them others can find again, and the tensors behind them.

B blocks of S tokens. Every operation takes constant time a block.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray


class OutOfBlocks(Exception):
    """Fewer blocks are free than were asked for; nothing was taken."""


class CacheInUse(Exception):
    """A reset was asked for while requests hold entries; nothing was reset."""


class BlockPool:
    """Reference counts, a free list in order of eviction, and the names under which full blocks can be found.

    A block that nobody holds is free, but keeps its name and contents until it is handed out again: the free list is
    the prefix cache, oldest first. Two blocks may carry one name (two requests computed the same prefix side by side);
    each stays reachable as long as it keeps its contents.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 1:
            raise ValueError(f"num_blocks: must be at least 1, not {num_blocks}")
        self.num_blocks = num_blocks
        self.peak_held = 0  # most blocks that were held at once
        self.reset()

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def holders(self) -> Sequence[int]:
        """[B] how many requests hold each block."""
        return self._holders

    @property
    def num_cached(self) -> int:
        """Blocks that carry a name, held or free."""
        return sum(len(blocks) for blocks in self._named.values())

    @property
    def num_cached_free(self) -> int:
        """Blocks that nobody holds and that can still be found."""
        return sum(1 for block in self._free if self._names[block] is not None)

    def match(self, names: Sequence[bytes]) -> list[int]:
        """Blocks of the longest leading run of names that are here. Takes nothing."""
        found = []
        named = self._named
        for name in names:
            blocks = named.get(name)
            if blocks is None:
                break
            found.append(blocks[0])
        return found

    def num_available_beside(self, matched: Sequence[int]) -> int:
        """Free blocks that remain once these are held."""
        holders = self._holders
        return len(self._free) - sum(1 for block in matched if not holders[block])

    @property
    def num_held(self) -> int:
        return self.num_blocks - len(self._free)

    def hold(self, blocks: Sequence[int]) -> None:
        """One more holder for each; a free one leaves the free list with its contents."""
        holders, free = self._holders, self._free
        for block in blocks:
            if not holders[block]:
                del free[block]
            holders[block] += 1
        self.peak_held = max(self.peak_held, self.num_held)

    def allocate(self, count: int) -> list[int]:
        """Hand out `count` blocks, the longest unused first; what they held can no longer be found."""
        free, holders, names = self._free, self._holders, self._names
        if count > len(free):
            raise OutOfBlocks(f"{count} blocks asked for, {len(free)} free")
        taken = []
        for _ in range(count):
            block, _ = free.popitem(last=False)
            if names[block] is not None:
                self._forget(block)
            holders[block] = 1
            taken.append(block)
        self.peak_held = max(self.peak_held, self.num_held)
        return taken

    def register(self, block: int, name: bytes) -> None:
        """From now on the held, full block can be found under this name."""
        assert self._holders[block] and self._names[block] is None, f"block {block} cannot be named now"
        self._names[block] = name
        self._named.setdefault(name, []).append(block)

    def release(self, blocks: Sequence[int]) -> None:
        """One holder less for each block of a sequence. Its tail joins the free list first and so is evicted first:
        a block without its predecessors is worth nothing."""
        holders, free = self._holders, self._free
        for block in reversed(blocks):
            holders[block] -= 1
            if not holders[block]:
                free[block] = None

    def reset(self) -> None:
        """Forget all contents. CacheInUse while any block is held."""
        held = self.num_blocks - len(getattr(self, "_free", range(self.num_blocks)))
        if held:
            raise CacheInUse(f"{held} of {self.num_blocks} KV blocks are in use")
        self._holders = [0] * self.num_blocks
        self._names: list[bytes | None] = [None] * self.num_blocks
        self._named: dict[bytes, list[int]] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(self.num_blocks))

    def check_integrity(self) -> None:
        """AssertionError unless counts, free list and names agree."""
        for block, holders in enumerate(self._holders):
            assert holders >= 0, f"block {block} has {holders} holders"
            assert (block in self._free) == (holders == 0), f"block {block}: free list and holders disagree"
        named = {block: name for name, blocks in self._named.items() for block in blocks}
        assert all(self._named.values()), "a name without a block"
        carried = {block: name for block, name in enumerate(self._names) if name is not None}
        assert named == carried, "a block and its name have lost each other"

    def _forget(self, block: int) -> None:
        name = self._names[block]
        assert name is not None
        self._names[block] = None
        blocks = self._named[name]
        blocks.remove(block)  # twins are few: requests that ran side by side
        if not blocks:
            del self._named[name]


class KvTensors:
    """Keys and values of all layers. L layers, B blocks, S tokens a block, K key-value heads, D numbers a head."""

    def __init__(
        self,
        layers: int,
        blocks: int,
        block_size: int,
        kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
    ) -> None:
        self.block_size = block_size
        shape = (layers, blocks * block_size, kv_heads, head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)  # [L, B·S, K, D]
        self.values = torch.zeros(shape, dtype=dtype, device=device)  # [L, B·S, K, D]

    @property
    def num_bytes(self) -> int:
        return 2 * self.keys.nelement() * self.keys.element_size()

    def slots(self, blocks: Sequence[int], stop: int) -> NDArray[np.int64]:
        """[stop] rows of the tensors that hold the first tokens of a block table."""
        starts = np.array(blocks, dtype=np.int64)[:, None] * self.block_size
        return (starts + np.arange(self.block_size)).reshape(-1)[:stop]

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """slots: [T]; keys, values: [T, K, D]."""
        self.keys[layer, slots] = keys
        self.values[layer, slots] = values

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """slots: [C]; keys and values [C, K, D]."""
        return self.keys[layer, slots], self.values[layer, slots]
