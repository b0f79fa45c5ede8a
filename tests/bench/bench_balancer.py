"""Time of the balancer against a plain greedy one: `python -m tests.bench.bench_balancer`. Asserts nothing."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from simworkers.moe.balancer import choose_balancer
from simworkers.moe.placement import ClusterShape
from tests.simworkers.moe.test_balancer import naive_greedy_peak

SHAPE = ClusterShape(num_slots=288, num_gpus=32, num_nodes=4, num_groups=8)
LOADS = {
    "lognormal": np.random.default_rng(0).lognormal(0, 1, (58, 256)),
    "Zipf 1": np.stack(
        [np.random.default_rng(seed).permutation(1 / np.arange(1, 257)) for seed in range(58)]
    ),
}


def median_ms(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1e3)
    return statistics.median(taken)


def naive_peaks(load: Any) -> list[float]:
    return [naive_greedy_peak(layer, 288, 32) for layer in load.tolist()]


def main() -> None:
    print("58 layers × 256 experts, 288 slots, 32 GPUs; median of 21, milliseconds")
    for name, load in LOADS.items():
        plain = median_ms(partial(naive_peaks, load), 1)
        for policy in ("hierarchical", "global"):
            balancer = choose_balancer(policy, SHAPE)
            ours = median_ms(partial(balancer.place, load, SHAPE), 21)
            reached = balancer.place(load, SHAPE).max_over_mean(load).mean()
            print(
                f"{name:10} {policy:13} {ours:6.1f} ms, 1/{plain / ours:.0f} of a plain loop, max/mean {reached:.4f}"
            )


if __name__ == "__main__":
    main()
