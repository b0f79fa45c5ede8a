"""Exact replay of a trace beside a naive cache: `python -m tests.bench.bench_replay TRACE`. Asserts nothing.

Reading, preparing and replaying are timed apart, with the garbage collector off, as the least of several rounds. With
--times the sessions are repeated, each copy with block ids of its own.
"""

import argparse
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from simworkers.agents.replay import prepare, replay, replay_blocks
from simworkers.agents.traces import Trace, read_trace

ROUNDS = 5


def least_s(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    taken = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
        gc.enable()
    return min(taken)


def repeated(trace: Trace, times: int) -> Trace:
    count = len(trace.sessions)
    return Trace(
        [
            replace(session, number=session.number + copy * count, space=session.space + copy * count)
            for copy in range(times)
            for session in trace.sessions
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_replay", description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--capacity-blocks", type=int, default=16_384)
    options = parser.parse_args()

    def read() -> Trace:
        with options.trace.open("rb") as file:
            return read_trace(file)

    reading = least_s(read, 1)
    trace = repeated(read(), options.times)
    prepared = prepare(trace)
    assert replay(prepared, options.capacity_blocks) == replay_blocks(trace, options.capacity_blocks)
    preparing = least_s(lambda: prepare(trace))
    replaying = least_s(lambda: replay(prepared, options.capacity_blocks))
    naive = least_s(lambda: replay_blocks(trace, options.capacity_blocks), 2)
    print(f"{len(prepared.sizes):,} requests, {prepared.block_references:,} block references")
    print(f"{prepared.num_stretches:,} stretches; CPU seconds of one core")
    print(f"read {reading:.3f} (once) · prepare {preparing:.4f} · replay {replaying:.5f} · naive {naive:.3f}")
    print(f"replay of prepared stretches: {naive / replaying:,.0f} × naive")
    print(f"prepare and replay together: {naive / (preparing + replaying):.1f} × naive")


if __name__ == "__main__":
    main()
