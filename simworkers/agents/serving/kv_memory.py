"""All that a replica can read KV from: its HBM, its host memory, and the pool that it shares."""

from collections.abc import Sequence

from simworkers.agents.serving.run_cache import Found, RunCache
from simworkers.agents.serving.tiers import HostTier, Link, Pool
from simworkers.agents.serving.workload import Turn


class KvMemory:
    """Lookups go tier by tier, and stop at the first block that no tier has."""

    def __init__(
        self,
        cache: RunCache,
        block_size: int,
        host: HostTier | None = None,
        pool: Pool | None = None,
        pool_link: Link | None = None,
    ) -> None:
        self.cache, self.block_size = cache, block_size
        self.host, self.pool, self.pool_link = host, pool, pool_link

    def tokens_of(self, turn: Turn, blocks: int) -> int:
        """Of leading blocks of a prompt."""
        return min(blocks * self.block_size, turn.input_tokens)

    def find_in_hbm(self, turn: Turn) -> int:
        """Leading blocks of a prompt."""
        found = turn.chain.leading_places(self.cache.find(turn.chain.runs), turn.blocks)
        return min(found, turn.hit_cap)

    def find(self, turn: Turn) -> Found:
        """Leading blocks by tier. Where ids repeat in a prompt, HBM alone is looked at."""
        if (self.host is None and self.pool is None) or turn.chain.places is not None:
            return Found(self.find_in_hbm(turn))
        hbm = host = pool = 0
        for run in turn.chain.runs:
            length = self.cache.run_lengths[run]
            here, on_host, in_pool = self.cache.find((run,)), 0, 0
            if not self.cache.is_held(run):  # what is being computed is not loaded over it
                on_host = self.host.find(run) if self.host is not None else 0
                in_pool = max(self.pool.find(run) - here - on_host, 0) if self.pool is not None else 0
            hbm, host, pool = hbm + here, host + on_host, pool + in_pool
            if here + on_host + in_pool < length:
                break
        over = max(hbm + host + pool - turn.hit_cap, 0)
        from_pool = min(over, pool)
        from_host = min(over - from_pool, host)
        return Found(hbm - (over - from_pool - from_host), host - from_host, pool - from_pool)

    def load(self, found: Found, runs: Sequence[int], at: int) -> int:
        """Start what has to be loaded; when all of it is there."""
        ready_at = at
        if found.host and self.host is not None:
            ready_at = self.host.link.load(found.host * self.host.block_bytes, at)
        if found.pool and self.pool is not None and self.pool_link is not None:
            loaded_at = self.pool_link.load(found.pool * self.pool.block_bytes, at)
            self.pool.touch(runs)
            ready_at = max(ready_at, loaded_at)
        return ready_at

    def hold(self, runs: Sequence[int], nameless_blocks: int) -> None:
        """For a request. What HBM does not have can be hit by others once it is read or computed."""
        self.cache.hold(runs, self.cache.find(runs), nameless_blocks)
        if self.host is not None:
            self.host.take(runs)

    def keep(self, turn: Turn, kv_blocks: int, nameless_blocks: int) -> None:
        """A request is over: its prompt, and of its answer what its agent goes on with, can be found again."""
        runs = turn.chain.runs
        named = self.cache.name(turn.kept, nameless_blocks) if turn.kept else 0
        if named is None:  # an answer that took no room while it grew, and has none now
            self.cache.release(runs, kv_blocks, nameless_blocks)
            return self.pass_through(turn)
        runs += turn.kept
        if self.host is not None:  # another request may have left the same blocks before
            self.host.take(turn.kept)
        self.cache.release(runs, kv_blocks, nameless_blocks - named)
        if self.pool is not None and self.pool_link is not None:
            self.pool.store(runs, self.pool_link)
        return None

    def pass_through(self, turn: Turn) -> None:
        """What is larger than HBM's room is over: its head stays there, the rest is lost."""
        runs = turn.chain.runs + turn.kept
        self.cache.keep_head(runs)
        if self.host is not None:
            self.host.take(runs)

    def reset(self) -> None:
        """HBM and host memory are lost, and what was being loaded; the pool is not."""
        self.cache.reset()
        if self.host is not None:
            self.host.lru.reset()
            self.host.link.drop()
        if self.pool_link is not None:
            self.pool_link.drop()

    def check_integrity(self) -> None:
        """AssertionError unless each tier agrees with itself, and no block lies in HBM and in host memory too."""
        lengths = self.cache.run_lengths
        self.cache.check_integrity()
        if self.pool is not None:
            self.pool.lru.check_integrity(lengths)
        if self.host is None:
            return
        self.host.lru.check_integrity(lengths)
        for run, blocks in self.host.lru.blocks.items():
            assert not self.cache.is_held(run), f"run {run} is held, and on the host too"
            here = self.cache.free.blocks.get(run, 0)
            assert here + blocks <= lengths[run], f"run {run} has {here} + {blocks} blocks"
