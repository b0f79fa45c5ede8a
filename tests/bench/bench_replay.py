"""Exact replay beside a naive cache: `python -m tests.bench.bench_replay (TRACE | --sessions N)`. Asserts nothing.

Reading, preparing and replaying are timed apart, with the garbage collector off, as the least of several rounds. With
--times the sessions are repeated, each copy with block ids of its own. --sessions generates instead of reading; what is
read then is the first of these sessions as a file.
"""

import argparse
import gc
import io
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from simworkers.agents.traffic import traces
from simworkers.agents.traffic.flags import HIT_RATE
from simworkers.agents.traffic.generator import GeneratorSpec, generate
from simworkers.agents.traffic.replay import Hits, prepare, replay, replay_blocks
from simworkers.agents.traffic.trace_rows import parse_line, parse_plainly
from simworkers.agents.traffic.trace_writing import write_trace
from simworkers.agents.traffic.traces import Trace, read_trace

ROUNDS = 5
MOST_READ = 200  # sessions; a file has a limit


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


def peak_mib() -> float:
    """Resident memory of this process, at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def id_bytes(trace: Trace) -> int:
    """Of all arrays that block ids lie in, each once."""
    arrays = {}
    for session in trace.sessions:
        for request in session.requests:
            whole = request.blocks if request.blocks.base is None else request.blocks.base
            arrays[id(whole)] = whole.nbytes
    return sum(arrays.values())


def show_reading(text: bytes) -> None:
    def read(parse: Callable[[bytes], object]) -> float:
        traces.parse_line = parse  # type: ignore[assignment]
        return least_s(lambda: read_trace(io.BytesIO(text)), 2)

    plain_s, in_parts_s = read(parse_plainly), read(parse_line)
    print(f"read {len(text) / 1e6:.1f} MB of text: {in_parts_s:.3f} · every list by itself {plain_s:.3f}")


def show_replay(trace: Trace, capacity_blocks: int, naive_rounds: int) -> None:
    prepared = prepare(trace)
    naive: list[Hits] = []
    naive_s = least_s(lambda: naive.append(replay_blocks(trace, capacity_blocks)), naive_rounds)
    assert replay(prepared, capacity_blocks) == naive[0]
    preparing_s = least_s(lambda: prepare(trace))
    with_flags_s = least_s(lambda: prepare(trace, HIT_RATE))
    replaying_s = least_s(lambda: replay(prepared, capacity_blocks))
    size = f"{prepared.block_references:,} block references, {prepared.num_stretches:,} stretches"
    print(f"{len(prepared.sizes):,} requests, {size}")
    print(f"prepare {preparing_s:.4f} · for the hit rate's flags {with_flags_s:.4f}")
    print(f"replay {replaying_s:.5f} · naive {naive_s:.3f}")
    print(f"replay of prepared stretches: {naive_s / replaying_s:,.0f} × naive")
    print(f"prepare and replay together: {naive_s / (preparing_s + replaying_s):.1f} × naive")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_replay", description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--sessions", type=int, default=24)
    parser.add_argument("--times", type=int, nargs="+", default=[1])
    parser.add_argument("--capacity-blocks", type=int, default=16_384)
    parser.add_argument("--naive-rounds", type=int, default=2)
    options = parser.parse_args()
    spec, before_mib = GeneratorSpec(num_sessions=options.sessions), peak_mib()
    if options.trace is None:
        trace = generate(spec, 0)
    else:
        with options.trace.open("rb") as file:
            trace = read_trace(file)
    prepare(trace)
    print(f"to have it prepared, the process grew by {peak_mib() - before_mib:.0f} MiB")
    if options.trace is None:
        print(f"generated in {least_s(lambda: generate(spec, 0), 2):.3f}")
    references = sum(len(request.blocks) for _, request in trace.in_order())
    print(f"block ids: {id_bytes(trace) / references:.3f} MB a million block references")
    print("CPU seconds of one core")
    text = io.BytesIO()
    write_trace(Trace(trace.sessions[:MOST_READ]), text, compress=False)
    show_reading(text.getvalue())
    del text
    for times in options.times:
        print(f"\n{times} ×, capacity {options.capacity_blocks:,} blocks")
        show_replay(repeated(trace, times), options.capacity_blocks, options.naive_rounds)


if __name__ == "__main__":
    main()
