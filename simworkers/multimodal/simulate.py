"""One run of the multimodal lab: parameters and a seed in, a report out. No clock decides anything that is reported."""

import time

import PIL

from simworkers.catalog import engine_version
from simworkers.engine.engine import Step
from simworkers.jobs import Progress, Report
from simworkers.multimodal.checks import Checks
from simworkers.multimodal.cluster import CLUSTER_PARTS, check_cluster, compare_clusters
from simworkers.multimodal.conversation import Workload, check_own_image
from simworkers.multimodal.measure import measure
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.server import Server, Turn
from simworkers.multimodal.stages import Prices
from simworkers.provenance import provenance
from simworkers.threads import torch_threads

LAB = "multimodal-cache"
SMALLEST = MultimodalParams(users=1, turns=1, image_width_px=64, image_height_px=64, answer_tokens=2)


def simulate(
    params: MultimodalParams, seed: int, progress: Progress, *, device: str = "cpu", threads: int = 1
) -> Report:
    """Run it. InvalidParameter for a picture that cannot be decoded, or a request that the cluster cannot hold."""
    started_s = time.perf_counter()
    check_own_image(params)
    check_cluster(params)
    with torch_threads(threads):
        server, checks = play(params, seed, progress, device)
        done = params.users * params.turns
        cluster = compare_clusters(params, seed, lambda part: progress(done + part, total_steps(params)))
        metrics = measure(params, server, checks, cluster)
    return Report(
        lab=LAB,
        engine_version=engine_version(LAB),
        seed=seed,
        params=params.model_dump(),
        metrics=metrics.model_dump(),
        invariants=checks.invariants,
        provenance=provenance(device, threads, started_s, pillow=PIL.__version__),
    )


def play(
    params: MultimodalParams, seed: int, progress: Progress, device: str = "cpu"
) -> tuple[Server, Checks]:
    """All chats to their end, with every check."""
    checks = Checks(params)
    by_name: dict[str, Turn] = {}

    def on_step(step: Step) -> None:
        for turn in server.turns[len(by_name) :]:
            by_name[f"user {turn.user}, turn {turn.turn}"] = turn
        checks.step(step, server.engine, by_name)
        progress(sum(len(chat.answers) for chat in server.workload.chats), total_steps(params))

    workload = Workload(params, seed, lambda: progress(0, total_steps(params)))
    server = Server(params, workload, on_step, device)
    server.play()
    prices = Prices(params)
    checks.finish(
        server,
        prices.cache_bytes(server.engine.config),
        round(params.cache_budget_mb * 1e6),
        lambda: progress(params.users * params.turns, total_steps(params)),
    )
    return server, checks


def total_steps(params: MultimodalParams) -> int:
    """Of progress: turns, and parts of the cluster comparison."""
    return params.users * params.turns + CLUSTER_PARTS


def warm() -> None:
    """A first run pays for much of torch, and for tables that all share: paid before anyone asks."""
    play(SMALLEST, 0, lambda _done, _total: None)
