"""How fast a full queue drains, beside the same simulations without a site.

    python -m tests.bench.bench_queue [--runs 100] [--transports embedded redis rabbitmq]

Learners queue their runs with default parameters while the worker is stopped; it goes on, and the time until the last
run is graded is taken, then until the last figures are drawn. Before and after it a quarter as many of the same runs
are simulated and drawn on two processes that do nothing else, and their time is scaled up. Asserts nothing.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from typing import Any

from demo.api import Api
from tests.bench.sites import TITLES, TRANSPORTS, Lacking, bench_site, load_average
from tests.journeys.conftest import Site

SLOTS = 2
RUNS_EACH = 4  # what a learner may have queued
PATIENCE_S = 900
BARE_SHARE = 4


def start_bare() -> None:
    """In a process of the pool: as a forked simulation finds it, warm and with one thread, a session to itself."""
    import torch

    from simworkers.moe.simulate import warm

    os.setsid()  # as a run's child does: Linux shares busy cores between sessions first
    torch.set_num_threads(1)
    warm()


def simulate_bare(seed: int) -> Any:
    from simworkers.moe.params import MoeParams
    from simworkers.moe.simulate import simulate

    return simulate(MoeParams(), seed, lambda _done, _total: None)


def draw_bare(report: Any) -> int:
    from simworkers.moe.figures import draw

    return len(draw(report))


def timed(
    work: Callable[[Any], Any], pool: ProcessPoolExecutor, items: Iterable[Any]
) -> tuple[float, list[Any]]:
    begun = time.perf_counter()
    results = list(pool.map(work, items))
    return time.perf_counter() - begun, results


def bare_s(first_seed: int, runs: int) -> tuple[float, float]:
    """(seconds to simulate, seconds to draw) as many seeds on two processes that are warm."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(SLOTS, context, initializer=start_bare) as pool:
        _, reports = timed(simulate_bare, pool, range(SLOTS))
        timed(draw_bare, pool, reports)
        simulated_s, reports = timed(simulate_bare, pool, range(first_seed, first_seed + runs))
        drawn_s, _ = timed(draw_bare, pool, reports)
    return simulated_s, drawn_s


def queue_runs(site: Site, runs: int) -> list[tuple[Api, str]]:
    """(its learner, its URL) of as many runs with default parameters, each with a seed of its own."""
    queued: list[tuple[Api, str]] = []
    for seed in range(1, runs + 1):
        if len(queued) % RUNS_EACH == 0:
            api = site.newcomer()
        queued.append((api, api.post("labs/moe-eplb/runs/", {"params": {}, "seed": seed})["url"]))
    return queued


def wait_for(queued: list[tuple[Api, str]], field: str) -> list[Any]:
    """The runs when all are graded and have their figures if `field` says so. Asks for one at a time, once a second."""
    seen = []
    deadline = time.monotonic() + PATIENCE_S
    for api, url in queued:
        while not (run := api.get(url))[field]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} is {run['state']}")
            time.sleep(1)
        seen.append(run)
    return seen


def drain(transport: str, runs: int) -> tuple[float, float]:
    """(until the last run is graded, until the last one's figures are drawn), seconds since the worker goes on."""
    with bench_site(transport) as (site, _):
        first = site.newcomer()
        warm = first.post("labs/moe-eplb/runs/", {"params": {}, "seed": 0})["url"]
        wait_for([(first, warm)], "figures_ready")
        os.kill(site.pids["worker"], signal.SIGSTOP)
        try:
            queued = queue_runs(site, runs)
        finally:
            os.kill(site.pids["worker"], signal.SIGCONT)
        begun_s = time.time()
        done = wait_for(queued, "finished_at")
        wait_for(queued, "figures_ready")
        drawn_s = time.time() - begun_s
    wrong = [run["url"] for run in done if run["state"] != "graded" or run["reused"] or run["tries"] != 1]
    if wrong:
        raise RuntimeError(f"not graded, reused or tried again: {wrong}")
    return max(datetime.fromisoformat(run["finished_at"]).timestamp() for run in done) - begun_s, drawn_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--transports", nargs="+", choices=list(TRANSPORTS), default=list(TRANSPORTS))
    options = parser.parse_args()
    share = max(SLOTS, options.runs // BARE_SHARE)
    for transport in options.transports:
        before = bare_s(1, share)
        try:
            graded_s, drawn_s = drain(transport, options.runs)
        except Lacking as what:
            print(f"{TITLES[transport]}: {what}", file=sys.stderr)
            continue
        after = bare_s(1 + share, share)
        # The machine's other work is never quite the same: the mean of before and after.
        simulate_s, draw_s = (
            sum(pair) / 2 / share * options.runs for pair in zip(before, after, strict=True)
        )
        both_s = simulate_s + draw_s
        print(f"\n{TITLES[transport]}, {options.runs} default runs, {SLOTS} slots, {load_average()}")
        print(
            f"all graded  {graded_s:6.1f} s, {graded_s / simulate_s:.2f} × of {simulate_s:.1f} s of simulate()"
        )
        print(f"all drawn   {drawn_s:6.1f} s, {drawn_s / both_s:.2f} × of {both_s:.1f} s with draw()")


if __name__ == "__main__":
    main()
