"""The cluster of the agent lab beside itself on a naive cache: `python -m tests.bench.bench_cluster`. Asserts no time.

64 generated sessions with contexts of published size, 32 at a time, on 4 replicas of 16,384 blocks. Simulations are
timed as CPU seconds of one core with the garbage collector off, the least of several rounds; the naive cache runs once
and has to give every turn the same way. --growth repeats the sessions, each copy with block ids of its own.
"""

import argparse
import time
import tracemalloc
from dataclasses import replace

from simworkers.agents.serving.cluster import Cluster, Setup
from simworkers.agents.serving.cost import StepCost
from simworkers.agents.serving.policies import POLICIES
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.serving.workload import Workload, build_workload
from simworkers.agents.traffic.generator import GeneratorSpec, generate
from simworkers.agents.traffic.traces import Trace
from simworkers.hardware import GPUS
from tests.bench.bench_replay import least_s, repeated
from tests.simworkers.agents.naive_cache import NaiveCache
from tests.simworkers.agents.scenes import facts

SPEC = GeneratorSpec(num_sessions=64, turns_percent=64)
SETUP = Setup(
    replicas=4,
    kv_blocks=16_384,
    cost=StepCost(
        MODELS["qwen3-32b"],
        GPUS["h200"],
        tensor_parallel=2,
        token_budget=8192,
        step_overhead_us=1000,
        collective_us=10,
    ),
    sessions_at_once=32,
    start_gap_us=10**6,
)
MOST_THINKING_US = 30 * 10**6
COMPARED = ("round_robin", "longest_prefix", "sticky_spill")  # with the naive cache


def by_policy(workload: Workload) -> None:
    for policy in POLICIES:
        setup = replace(SETUP, policy=policy)
        outcome = Cluster(workload, setup).play()
        seconds = least_s(lambda setup=setup: Cluster(workload, setup).play(), 3)  # type: ignore[misc]
        line = f"{policy:20} {seconds:.3f} s · {outcome.events:,} events"
        if policy in COMPARED:
            started = time.process_time()
            naive = Cluster(workload, setup, cache_type=NaiveCache).play()
            naive_s = time.process_time() - started
            assert facts(naive) == facts(outcome), "the naive cache goes another way"
            line += f" · naive {naive_s:.1f} s, {naive_s / seconds:.0f} ×"
        print(line)


def kept_mib(trace: Trace) -> float:
    """What a workload keeps beside the trace that it is built of."""
    tracemalloc.start()
    workload = build_workload(trace, think_at_most_us=MOST_THINKING_US)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / 2**20 / (workload.block_references / 10**6)


def growth() -> None:
    trace = generate(SPEC, 0)
    for times in (1, 10, 100):
        grown = repeated(trace, times)
        if times <= 10:  # traced, it takes many times as long
            print(f"{times} ×: the workload keeps {kept_mib(grown):.2f} MiB a million block references")
        started = time.process_time()
        workload = build_workload(grown, think_at_most_us=MOST_THINKING_US)
        built_s = time.process_time() - started
        cluster = Cluster(workload, SETUP)
        played_s = least_s(cluster.play, 1)
        print(
            f"{times} ×: {len(workload.turns):,} turns, {workload.block_references / 10**6:.1f} million references; "
            f"built in {built_s:.2f} s, played once in {played_s:.2f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_cluster", description=__doc__)
    parser.add_argument("--growth", action="store_true")
    if parser.parse_args().growth:
        growth()
        return
    trace = generate(SPEC, 0)
    workload = build_workload(trace, think_at_most_us=MOST_THINKING_US)
    building = least_s(lambda: build_workload(trace, think_at_most_us=MOST_THINKING_US), 3)
    runs = sum(len(turn.chain.runs) for turn in workload.turns)
    print(
        f"{len(workload.turns):,} turns, {workload.block_references:,} block references, {runs:,} run references; "
        f"workload built in {building:.3f} s"
    )
    by_policy(workload)


if __name__ == "__main__":
    main()
