"""All measurements of docs/benchmarks.md, one after another: `python -m tests.bench [TRACE]`. None asserts a time.

Whatever fails is named at the end, and the others run all the same.
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLE = Path("fixtures/traces/agent-sessions.jsonl.gz")
MEASUREMENTS = (
    "bench_pipeline --runs 50",
    "bench_queue",
    "bench_memory",
    "bench_runner",
    "bench_streams --streams 500",
    "bench_engine",
    "bench_multimodal",
    "bench_replay TRACE --times 1 10 100 --naive-rounds 1",
    "bench_replay --sessions 700 --naive-rounds 1",
    "bench_cluster",
    "bench_cluster --growth",
    "bench_moe",
    "bench_balancer",
    "bench_preprocess_cost",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?", default=SAMPLE, metavar="TRACE")
    trace = parser.parse_args().trace.resolve()
    failed = []
    for measurement in MEASUREMENTS:
        print(f"== {measurement}", flush=True)
        name, *arguments = shlex.split(measurement)
        arguments = [str(trace) if argument == "TRACE" else argument for argument in arguments]
        if subprocess.run([sys.executable, "-m", f"tests.bench.{name}", *arguments], cwd=ROOT).returncode:
            failed.append(measurement)
    for measurement in failed:
        print(f"failed: {measurement}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
