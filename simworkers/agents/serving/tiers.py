"""Where KV goes that HBM cannot hold: the host memory of a replica, and a pool that all replicas share.

Host: blocks that HBM pushes out are written back to it, and leave it when they are loaded, so that a block lies in HBM
or on the host, never in both. Pool: what a finished request leaves is stored in it, and stays for others.
Loads stand in line at a replica's link. Write-backs use its other direction; what they would take is counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from simworkers.agents.serving.cost import FS_PER_S
from simworkers.agents.serving.run_cache import RunLru


@dataclass
class Link:
    """One direction loads, the other writes; in bytes and femtoseconds."""

    bytes_per_s: float
    free_at: int = 0
    loaded_bytes: int = 0
    written_bytes: int = 0

    def load(self, size_bytes: int, at: int) -> int:
        """When a load that is asked for at `at` is over."""
        self.loaded_bytes += size_bytes
        self.free_at = max(self.free_at, at) + round(size_bytes * FS_PER_S / self.bytes_per_s)
        return self.free_at

    def drop(self) -> None:
        """Nobody is left who waits for what it loads."""
        self.free_at = 0

    @property
    def write_fs(self) -> int:
        """What all that was written would take."""
        return round(self.written_bytes * FS_PER_S / self.bytes_per_s)


class HostTier:
    """Blocks behind those of the same run in HBM; a run's tail leaves first, as in HBM."""

    def __init__(self, capacity_blocks: int, block_bytes: int, link: Link) -> None:
        self.lru = RunLru(capacity_blocks)
        self.block_bytes, self.link = block_bytes, link

    def write_back(self, run: int, blocks: int) -> None:
        """The last blocks of a run that HBM has just pushed out."""
        self.lru.put(run, blocks)
        self.link.written_bytes += blocks * self.block_bytes
        excess = self.lru.total_blocks - self.lru.capacity_blocks
        if excess > 0:
            self.lru.evict(excess)

    def find(self, run: int) -> int:
        return self.lru.blocks.get(run, 0)

    def take(self, runs: Sequence[int]) -> None:
        """They are in HBM now."""
        for run in runs:
            if run in self.lru.blocks:
                self.lru.take(run)


@dataclass
class Pool:
    """Leading blocks of runs, whoever computed them."""

    capacity_blocks: int
    block_bytes: int
    run_lengths: Sequence[int]
    lru: RunLru = field(init=False)

    def __post_init__(self) -> None:
        self.lru = RunLru(self.capacity_blocks)

    def find(self, run: int) -> int:
        return self.lru.blocks.get(run, 0)

    def touch(self, runs: Sequence[int]) -> None:
        """They were read: the head becomes the most recent."""
        for run in reversed(runs):
            if run in self.lru.blocks:
                self.lru.put(run, 0)

    def store(self, runs: Sequence[int], link: Link) -> None:
        """All blocks of these runs; those that are here already are not sent again."""
        new = 0
        for run in reversed(runs):
            missing = self.run_lengths[run] - self.find(run)
            self.lru.put(run, missing)
            new += missing
        link.written_bytes += new * self.block_bytes
        excess = self.lru.total_blocks - self.lru.capacity_blocks
        if excess > 0:
            self.lru.evict(excess)
