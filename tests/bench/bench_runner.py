"""What a warm fork saves: latency of an empty call, and of importing torch in a process of its own.

    python -m tests.bench.bench_runner [calls]

Prints medians; asserts nothing.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from labs import runner

COLD = [sys.executable, "-c", "import torch, simworkers.catalog; torch.set_num_threads(1); print('{}')"]
LIMITS = runner.Limits(time_s=60, memory_bytes=2**28)


def seconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    os.environ.setdefault("LOG_LEVEL", "WARNING")  # each child says when it begins and ends
    server = runner.WarmServer("--entries", "tests.simworkers.forkserver_entries")
    start_s = seconds(server.start)

    def warm_call() -> None:
        runner.call("count", {"steps": 0}, limits=LIMITS, on_beat=lambda seen: True, server=server)

    def cold_process() -> None:
        subprocess.run(
            COLD, check=True, capture_output=True, env=runner.scrubbed_environment(), cwd=runner.ROOT
        )

    warm_s = [seconds(warm_call) for _ in range(calls)]
    cold_s = [seconds(cold_process) for _ in range(3)]
    server.stop()
    warm_ms, cold_ms = 1000 * statistics.median(warm_s), 1000 * statistics.median(cold_s)
    print(f"server start        {1000 * start_s:8.0f} ms, once a worker")
    print(f"cold process        {cold_ms:8.0f} ms a call (median of {len(cold_s)})")
    print(f"fork from warm      {warm_ms:8.1f} ms a call (median of {calls}; worst {1000 * max(warm_s):.1f})")
    print(f"cold / warm         {cold_ms / warm_ms:8.0f}")


if __name__ == "__main__":
    main()
