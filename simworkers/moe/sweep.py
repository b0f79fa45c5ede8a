"""The explore sweep: what skew, EPLB, redundant slots and step size do to each other, measured once for everyone.

A declarative grid over the default scene. The router runs once for all points; every point then counts and prices its
own steps exactly as a run with its parameters would (a test holds one against the other), without the experts' GEMMs.
N steps, L layers, E experts, G GPUs, S slots, T tokens, k experts a token.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from simworkers.hardware import GPUS, MODELS
from simworkers.jobs import Progress, SweepData
from simworkers.moe.cost import CostModel
from simworkers.moe.experts import SlotTable, count_pairs, dispatch
from simworkers.moe.gate import Routes, library_of, route
from simworkers.moe.ledger import keep_ledger
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import IntArray, Placement, place_contiguously
from simworkers.moe.planning import plan, rebalances_before
from simworkers.moe.tally import US, Tally
from simworkers.rng import Stream
from simworkers.sweeping import tabulate
from simworkers.text import Library, draw_traffic
from simworkers.threads import torch_threads

SEED = 0
SCENE = {"chunk_tokens": 16, "num_steps": 8}  # what differs from the lab's defaults, at every point
GRID: dict[str, list[Any]] = {
    "skew_percent": [0, 20, 40, 60, 80, 100],
    "tokens_per_step": [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "eplb": [False, True],
    "redundant_slots_per_gpu": [0, 1, 2, 3],
}
LINES = "eplb"
MEASURED = (
    "max_over_mean_mean",
    "max_over_mean_max",
    "step_time_us",
    "speedup",
    "served_tokens_per_second",
    "barrier_wait_us",
    "share_hbm_bandwidth",
    "share_flops",
    "share_links",
    "share_barrier_wait",
    "share_kv_capacity",
    "extra_hbm_bytes",
    "kv_room_tokens_per_gpu",
)


def sweep(progress: Progress) -> SweepData:
    """The whole grid. With EPLB off the number of redundant slots changes nothing, and the values repeat."""
    scene = MoeParams.model_validate(SCENE)
    with torch_threads(1):
        measured = _measure_grid(scene, progress)
    return tabulate("moe-eplb", SEED, scene, GRID, LINES, MEASURED, measured)


def _measure_grid(scene: MoeParams, progress: Progress) -> list[dict[str, float]]:
    """Every point in the order of the axes, the last one fastest."""
    scenes = [
        scene.model_copy(update={"skew_percent": skew, "tokens_per_step": tokens})
        for skew, tokens in product(GRID["skew_percent"], GRID["tokens_per_step"])
    ]
    library = library_of(scene)
    everywhere = np.arange(len(library.tokens))
    routes = route(library, everywhere, scene, lambda: progress(0, len(scenes)))
    measured: list[dict[str, float]] = []
    for done, each in enumerate(scenes):
        measured += _measure_scene(each, library, routes, partial(progress, done, len(scenes)))
        progress(done + 1, len(scenes))
    return measured


@dataclass
class _Setting:
    """One way to balance a scene, as its steps go by."""

    params: MoeParams
    placement: Placement
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.put(self.placement)

    def put(self, placement: Placement) -> None:
        self.placement = placement
        self.tables = [SlotTable(placement, layer) for layer in range(len(placement.experts))]


def _measure_scene(
    scene: MoeParams, library: Library, routes: Routes, tick: Callable[[], None]
) -> Iterator[dict[str, float]]:
    """The points that share a skew and a step size, in the order of the last two axes."""
    contiguous = place_contiguously(scene.num_layers, scene.num_experts, scene.num_gpus)
    slots = GRID["redundant_slots_per_gpu"]
    off = _Setting(scene, contiguous)
    on = [
        _Setting(scene.model_copy(update={"eplb": True, "redundant_slots_per_gpu": extra}), contiguous)
        for extra in slots
    ]
    cost = CostModel(
        GPUS[scene.gpu_profile],
        MODELS[scene.model_profile],
        scene.weight_precision,
        scene.num_gpus,
        scene.num_nodes,
    )
    recorded: list[IntArray] = []
    for step in range(scene.warmup_steps + scene.num_steps):
        stream = Stream(SEED, "traffic", step)
        traffic = draw_traffic(library, scene.mix(), scene.tokens_per_step, scene.chunk_tokens, stream)
        chosen = routes.experts[:, routes.row[traffic.positions]]  # [L, T, k]
        measured = step - scene.warmup_steps
        for setting in (off, *on) if measured >= 0 else ():
            if rebalances_before(setting.params, measured):
                setting.put(plan(setting.params, np.sum(recorded[-scene.window_steps :], axis=0)))
            _serve(setting, chosen, cost)
        recorded.append(np.array([np.bincount(e.reshape(-1), minlength=scene.num_experts) for e in chosen]))
        tick()
    for setting in [off] * len(slots) + on:
        yield _summary(setting, off.tally.step_us())


def _serve(setting: _Setting, chosen: Any, cost: CostModel) -> None:
    """Dispatch one step and price it. chosen: [L, T, k] experts."""
    params = setting.params
    layers, tokens, top_k = chosen.shape
    gpus, num_slots = params.num_gpus, setting.placement.experts.shape[1]
    origin = np.repeat(np.arange(tokens) * gpus // tokens, top_k)  # [A] GPU where the token lives
    counts = np.empty((layers, num_slots), dtype=np.int64)
    sent = np.empty((layers, gpus, gpus), dtype=np.int64)
    for layer, experts in enumerate(chosen):
        out = dispatch(experts, setting.tables[layer])
        counts[layer] = out.counts
        sent[layer] = count_pairs(origin[out.order], out.slot // (num_slots // gpus), gpus)
    setting.tally.add(counts.reshape(layers, gpus, -1).sum(axis=2), cost.price(counts, sent))


def _summary(setting: _Setting, step_before_us: float) -> dict[str, float]:
    """The metrics of MEASURED, each as a run reports it."""
    params, tally = setting.params, setting.tally
    ledger = keep_ledger(params, params.extra_slots_per_gpu)
    imbalance, step_us, waiting = tally.imbalance(), tally.step_us(), ledger.waiting_share()
    shares = tally.shares(waiting)
    return {
        "max_over_mean_mean": float(imbalance.mean()),
        "max_over_mean_max": float(imbalance.max()),
        "step_time_us": step_us,
        "speedup": step_before_us / step_us,
        "served_tokens_per_second": params.tokens_per_step / step_us * US * (1.0 - waiting),
        "barrier_wait_us": float(tally.per_gpu_us()[2].sum()),
        "extra_hbm_bytes": ledger.copies * params.num_gpus,
        "kv_room_tokens_per_gpu": ledger.kv_room_tokens,
        **{f"share_{name}": share for name, share in shares.items()},
    }
