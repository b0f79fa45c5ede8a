"""Memory of each process of a site: web, worker, the warm server, and its children while they compute.

    python -m tests.bench.bench_memory [--transports embedded redis rabbitmq]

From /proc/PID/smaps_rollup, MiB: RSS counts shared pages in full, PSS by share, USS not at all. Of a child the largest
of each that was seen; it shares with the warm server what that one had imported. Asserts nothing. Linux.
"""

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import Any

from demo.api import Api
from tests.bench.sites import TITLES, TRANSPORTS, Lacking, bench_site, load_average
from tests.journeys.conftest import Site, children_of

WIDE = {"num_experts": 256, "top_k": 8, "num_gpus": 64, "num_nodes": 8, "num_groups": 8, "num_layers": 8}
WIDE |= {"eplb": True, "redundant_slots_per_gpu": 1, "num_steps": 4}
COLUMNS = ("RSS", "PSS", "USS")
PAUSE_S = 0.01
Memory = tuple[float, float, float]  # MiB: RSS, PSS, USS


def memory_mib(pid: int) -> Memory | None:
    """None once the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return None
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    if "Rss" not in kib:  # it has ended and is not buried yet
        return None
    return kib["Rss"] / 1024, kib["Pss"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024


class ChildrenWatch:
    """The largest of each measure of every child of the worker's warm server, in the order of their birth."""

    def __init__(self, site: Site) -> None:
        self.largest: dict[int, Memory] = {}  # by process id
        self._site = site
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._done.wait(PAUSE_S):
            for pid in self._site.children():
                if seen := memory_mib(pid):
                    rss, pss, uss = zip(self.largest.get(pid, seen), seen, strict=True)
                    self.largest[pid] = (max(rss), max(pss), max(uss))

    def __enter__(self) -> "ChildrenWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def wait_for_figures(api: Api, url: str) -> None:
    while not (run := api.get(url))["figures_ready"]:
        if run["state"] not in ("queued", "running", "graded"):
            raise RuntimeError(f"{url}: {run['state']}: {run['reason']}")
        time.sleep(0.2)


def watch_run(site: Site, api: Api, params: dict[str, Any]) -> tuple[Memory, Memory]:
    """(the child that simulates, the child that draws): the last two of a run that is alone."""
    with ChildrenWatch(site) as watch:
        wait_for_figures(api, api.post("labs/moe-eplb/runs/", {"params": params, "seed": 1})["url"])
    *_, simulating, drawing = watch.largest.values()
    return simulating, drawing


def measure(transport: str) -> dict[str, Memory]:
    with bench_site(transport) as (site, _):
        api = site.newcomer()
        small, drawing = watch_run(site, api, {})
        wide, _ = watch_run(site, api, WIDE)
        (server,) = children_of(site.pids["worker"])
        while site.children():  # what the server shares with a child would not count as its own
            time.sleep(PAUSE_S)
        standing = {"web": site.pids["web"], "worker": site.pids["worker"], "warm server": server}
        found = {name: memory_mib(pid) for name, pid in standing.items()}
    shown = {name: memory for name, memory in found.items() if memory is not None}
    return shown | {"child, default run": small, "child, wide run": wide, "child, drawing": drawing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--transports", nargs="+", choices=list(TRANSPORTS), default=list(TRANSPORTS))
    for transport in parser.parse_args().transports:
        try:
            found = measure(transport)
        except Lacking as what:
            print(f"{TITLES[transport]}: {what}", file=sys.stderr)
            continue
        print(
            f"\n{TITLES[transport]}, {load_average()}\n{'MiB':20}" + "".join(f"{name:>8}" for name in COLUMNS)
        )
        for name, memory in found.items():
            print(f"{name:20}" + "".join(f"{mib:8.0f}" for mib in memory))


if __name__ == "__main__":
    main()
