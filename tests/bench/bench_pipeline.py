"""The way of a run through the site, beside a bare Celery no-op on the same broker.

    python -m tests.bench.bench_pipeline [--runs 100] [--transports embedded redis rabbitmq] [--json]

One round after another: a no-op is sent, a child is forked that does nothing, and a run with the smallest parameters is
submitted over REST and waited for until its figures are drawn, so that nothing else runs while one is measured.
Asserts nothing. All times are of one machine's wall clock: the client's, and the database's for `running` and `graded`.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from demo.api import Api
from labs import runner
from simworkers.forked_child import die_with_parent
from simworkers.rng import Stream
from tests.bench.noop import QUEUE, ROOT, bare_app
from tests.bench.sites import TITLES, TRANSPORTS, Lacking, bench_site, load_average, percentile

SMALLEST = {"num_steps": 1, "warmup_steps": 1, "num_layers": 1, "tokens_per_step": 64, "chunk_tokens": 1}
WARM_UP_ROUNDS = 3
PATIENCE_S = 180
# Before each send a pause is drawn, of several looks of a worker that polls: else all rounds meet it in one phase.
PAUSE_MS = 320
RETRY = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}  # as labs.dispatch sends
LIMITS = runner.Limits(time_s=60, memory_bytes=2**28)

# What is measured → how it reads.
NAMES = {
    "noop": "no-op: send → begun",
    "child": "a child's start",
    "answered": "POST → 202",
    "woken": "row made → running",
    "running": "POST → running",
    "graded": "POST → graded",
    "computed": "running → graded",
    "simulated": "the simulation itself",
}
Sample = dict[str, float]  # name → seconds


class Noop:
    """A worker of the bare app, and the sender's side."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.app = bare_app(environment)
        self.address = str(folder / "begun.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.listener.bind(self.address)
        self.listener.settimeout(PATIENCE_S)

    def delay_s(self) -> float:
        """From the call that sends to the task's first line."""
        sent_s = time.time()
        self.app.send_task(
            "noop",
            args=[self.address],
            queue=QUEUE,
            retry=True,
            retry_policy=RETRY,
            confirm_timeout=10,
        )
        return float(self.listener.recv(64)) - sent_s


@contextmanager
def noop_worker(environment: dict[str, str]) -> Iterator[Noop]:
    """Started as `manage.py serve` starts the site's own: the same pool, slots and options."""
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "tests.bench.noop", "worker"]
    command += ["-P", "threads", "-c", "2", "-O", "fair", "--loglevel", "error"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    with tempfile.TemporaryDirectory(prefix="staffloop-bench-") as folder:
        noop = Noop(environment, Path(folder))
        parent = os.getpid()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            # `config` sets up the logs of whichever worker loads it, from Django's settings.
            env=environment | {"DJANGO_SETTINGS_MODULE": "config.settings"},
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),
        )
        try:
            yield noop
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            noop.listener.close()
            noop.app.close()


def child_start_s(server: runner.WarmServer) -> float:
    """From the request to the warm server to the child's first line."""
    request = {"entry": "arithmetic", "kwargs": {}, "limits": LIMITS.__dict__}
    with server.connect() as link:
        began_s = time.perf_counter()
        link.sendall(json.dumps(request).encode() + b"\n")
        heard = b""
        while b'"started"' not in heard:
            part = link.recv(4096)
            if not part:
                raise ConnectionError(f"no child began: {heard!r}")
            heard += part
        taken_s = time.perf_counter() - began_s
        while link.recv(4096):  # until it has ended
            pass
    return taken_s


def moment_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def measure_run(api: Api, seed: int) -> Sample:
    """Each with a seed of its own: an equal run would get the earlier one's report."""
    sent_s = time.time()
    run = api.post("labs/moe-eplb/runs/", {"params": SMALLEST, "seed": seed})
    answered_s = time.time()
    *_, run = api.watch(run["url"], lambda seen: seen["figures_ready"] or seen["state"] == "failed")
    if run["state"] != "graded" or run["reused"] or run["tries"] != 1:
        raise RuntimeError(f"run {run['url']}: {run['state']}, {run['tries']} tries: {run['reason']}")
    created_s, started_s, finished_s = (
        moment_s(run[f"{name}_at"]) for name in ("created", "started", "finished")
    )
    return {
        "answered": answered_s - sent_s,
        "woken": started_s - created_s,
        "running": started_s - sent_s,
        "graded": finished_s - sent_s,
        "computed": finished_s - started_s,
        "simulated": run["provenance"]["wall_s"],
    }


def measure(transport: str, runs: int) -> list[Sample]:
    """One sample a round, those of the warm-up left out."""
    server = runner.WarmServer()
    server.start()
    try:
        with bench_site(transport) as (site, environment), noop_worker(environment) as noop:
            api = site.newcomer()
            samples = []
            pauses_ms = iter(Stream(0, "bench_pipeline").integers(PAUSE_MS, 2 * (WARM_UP_ROUNDS + runs)))
            for n in range(WARM_UP_ROUNDS + runs):
                delay = {"child": child_start_s(server)}
                time.sleep(next(pauses_ms) / 1000)
                delay["noop"] = noop.delay_s()
                time.sleep(next(pauses_ms) / 1000)
                samples.append(delay | measure_run(api, seed=n + 1))
            return samples[WARM_UP_ROUNDS:]
    finally:
        server.stop()


def summary(samples: list[Sample]) -> dict[str, Any]:
    """{name: {"p50_ms", "p99_ms"}}, and ratios of both with the no-op and with what a run cannot do without."""
    shown: dict[str, Any] = {
        name: {f"p{rank}_ms": 1000 * percentile([one[name] for one in samples], rank) for rank in (50, 99)}
        for name in NAMES
    }
    for rank in ("p50_ms", "p99_ms"):
        bare_ms = shown["noop"][rank]
        needed_ms = bare_ms + shown["child"][rank] + shown["simulated"][rank]
        shown[f"woken_over_noop_{rank[:3]}"] = shown["woken"][rank] / bare_ms
        shown[f"running_over_noop_{rank[:3]}"] = shown["running"][rank] / bare_ms
        shown[f"graded_over_needed_{rank[:3]}"] = shown["graded"][rank] / needed_ms
    return shown


def show(transport: str, runs: int, shown: dict[str, Any]) -> None:
    print(f"\n{TITLES[transport]}, {runs} runs, {load_average()}\n{'ms':26}{'p50':>8}{'p99':>8}")
    for name, title in NAMES.items():
        print(f"{title:26}{shown[name]['p50_ms']:8.1f}{shown[name]['p99_ms']:8.1f}")
    for name, title in (
        ("woken_over_noop", "row made → running / no-op"),
        ("running_over_noop", "POST → running / no-op"),
        ("graded_over_needed", "POST → graded / (no-op + child's start + simulation)"),
    ):
        print(f"{title}: {shown[f'{name}_p50']:.2f} × at p50, {shown[f'{name}_p99']:.2f} × at p99")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--transports", nargs="+", choices=list(TRANSPORTS), default=list(TRANSPORTS))
    parser.add_argument("--json", action="store_true", help="all samples, in seconds, and nothing else")
    options = parser.parse_args()
    os.environ.setdefault("LOG_LEVEL", "ERROR")  # a line of each child would drown the table
    for transport in options.transports:
        try:
            samples = measure(transport, options.runs)
        except Lacking as what:
            print(f"{TITLES[transport]}: {what}", file=sys.stderr)
            continue
        if options.json:
            print(json.dumps({"transport": transport, "samples": samples}))
        else:
            show(transport, options.runs, summary(samples))


if __name__ == "__main__":
    main()
