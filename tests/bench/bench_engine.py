"""The engine beside the bare model on the same batches, and the block pool by itself.

python -m tests.bench.bench_engine
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Literal

import torch

from simworkers.engine.arithmetic import Arithmetic
from simworkers.engine.block_hash import extend_hashes
from simworkers.engine.config import EngineConfig, Limits
from simworkers.engine.engine import Engine
from simworkers.engine.kv_cache import BlockPool, KvTensors
from simworkers.engine.model import FlatBatch, Model, ModelShape, ModelWeights
from simworkers.engine.request import Sampling
from simworkers.rng import Stream

SHAPE = ModelShape(vocabulary=512, hidden=256, layers=4, heads=8, kv_heads=2, head_dim=32, feed_forward=768)
CONTEXT_TOKENS, BLOCK_SIZE = 142_000, 16
ROUNDS = 5


def prompt(seed: int, count: int) -> list[int]:
    return [int(token) for token in Stream(seed, "bench").integers(SHAPE.vocabulary, count)]


def new_engine(arithmetic: Literal["batched", "per_row"] = "batched") -> Engine:
    model = Model(SHAPE, ModelWeights.draw(SHAPE, 0))
    config = EngineConfig(
        num_blocks=2048,
        limits=Limits(token_budget=512),
        arithmetic=arithmetic,
    )
    return Engine(model, None, config)


def run_recorded(
    engine: Engine, sequences: int, tokens: int, outputs: int
) -> tuple[float, list[FlatBatch], int]:
    """Serve; seconds, the batches that the model saw, and the tokens that it computed."""
    batches = []
    forward = engine.model.forward

    def recorded(batch: FlatBatch, cache: KvTensors, arithmetic: Arithmetic) -> torch.Tensor:
        batches.append(batch)
        return forward(batch, cache, arithmetic)

    engine.model.forward = recorded  # type: ignore[method-assign]
    for n in range(sequences):
        engine.add_request(f"r{n}", prompt(n, tokens), Sampling(max_tokens=outputs))
    begun = time.perf_counter()
    engine.run()
    seconds = time.perf_counter() - begun
    return seconds, batches, sum(len(batch.tokens) for batch in batches)


def replay(engine: Engine, batches: list[FlatBatch]) -> float:
    """Seconds of the bare model on the same batches, its KV written anew in the same order."""
    model = Model(SHAPE, engine.model.weights)
    begun = time.perf_counter()
    with torch.inference_mode():
        for batch in batches:
            model.forward(batch, engine.cache, engine.arithmetic)
    return time.perf_counter() - begun


def compare(
    name: str,
    sequences: int,
    tokens: int,
    outputs: int,
    arithmetic: Literal["batched", "per_row"] = "batched",
) -> None:
    ratios, rates = [], []
    for _ in range(ROUNDS):
        engine = new_engine(arithmetic)
        seconds, batches, computed = run_recorded(engine, sequences, tokens, outputs)
        bare = replay(engine, batches)
        ratios.append(seconds / bare)
        rates.append((computed / seconds, computed / bare))
    engine_rate, bare_rate = (median(rate[i] for rate in rates) for i in (0, 1))
    print(f"{name:34} {engine_rate:10,.0f} {bare_rate:10,.0f} tokens/s   {median(ratios):.2f} ×")


def rate(what: Callable[[], int]) -> float:
    """Blocks per second, median of rounds."""
    rates = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        blocks = what()
        rates.append(blocks / (time.perf_counter() - begun))
    return median(rates)


def bench_pool() -> None:
    tokens = prompt(0, CONTEXT_TOKENS)
    names: list[bytes] = []
    begun = time.perf_counter()
    extend_hashes(names, tokens, BLOCK_SIZE)
    print(f"\nhashing {len(names):,} blocks: {len(names) / (time.perf_counter() - begun):,.0f} blocks/s")
    blocks = len(names)
    pool = BlockPool(2 * blocks)

    def cold() -> int:
        pool.reset()
        pool.hold(pool.match(names))
        taken = pool.allocate(blocks)
        for block, name in zip(taken, names, strict=True):
            pool.register(block, name)
        pool.release(taken)
        return blocks

    def warm() -> int:
        found = pool.match(names)
        pool.hold(found)
        pool.release(found)
        return blocks

    def plain() -> int:
        pool.match([b"unknown"])
        pool.release(pool.allocate(blocks))
        return blocks

    pool.reset()
    print(f"match, allocate, free, nothing cached: {rate(plain):12,.0f} blocks/s")
    print(f"the same with names registered:        {rate(cold):12,.0f} blocks/s")
    print(f"match, hold, free, all cached:         {rate(warm):12,.0f} blocks/s")
    pool.reset()
    cold()
    cold_names = list(names)

    def evicting() -> int:
        """The cached context is found, and as much again is allocated over what else the pool holds."""
        found = pool.match(cold_names)
        pool.hold(found)
        fresh = pool.allocate(blocks)
        pool.release(fresh)
        pool.release(found)
        return 2 * blocks

    print(f"half found, half allocated anew:       {rate(evicting):12,.0f} blocks/s")


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':34} {'engine':>10} {'bare model':>10}")
    compare("prefill, 16 prompts of 1,024", 16, 1024, 1)
    compare("decode, 32 sequences × 64 outputs", 32, 16, 64)
    compare("mixed, 16 × (512 + 64 outputs)", 16, 512, 64)
    compare("row by row, 4 × (64 + 16 outputs)", 4, 64, 16, "per_row")
    bench_pool()


if __name__ == "__main__":
    main()
