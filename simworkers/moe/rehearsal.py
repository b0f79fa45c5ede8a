"""The counts of a run without its experts: what the router alone decides, exactly as a run would report it.

Tasks are drawn with it, because it takes a tenth of the time; a test holds it against the real run.
N steps, L layers, E experts, G GPUs.
"""

from dataclasses import dataclass

import numpy as np

from simworkers.catalog import Progress
from simworkers.moe.balancer import choose_balancer
from simworkers.moe.gate import route
from simworkers.moe.params import DOMAINS, MoeParams
from simworkers.moe.placement import (
    ClusterShape,
    IntArray,
    Placement,
    max_over_mean,
    place_contiguously,
)
from simworkers.rng import Stream
from simworkers.text import draw_traffic, load_library


def count_experts(params: MoeParams, seed: int, progress: Progress) -> IntArray:
    """[W + N, L, E] token copies for each expert in each step, warm-up steps first."""
    library = load_library(DOMAINS)
    steps = params.warmup_steps + params.num_steps
    positions = [
        draw_traffic(
            library, params.mix(), params.tokens_per_step, params.chunk_tokens, Stream(seed, "traffic", step)
        ).positions
        for step in range(steps)
    ]
    routes = route(library, np.concatenate(positions), params, lambda: progress(0, steps))
    counts = np.empty((steps, params.num_layers, params.num_experts), dtype=np.int64)
    for step in range(steps):
        chosen = routes.experts[:, routes.row[positions[step]]].reshape(params.num_layers, -1)
        for layer in range(params.num_layers):
            counts[step, layer] = np.bincount(chosen[layer], minlength=params.num_experts)
        progress(step + 1, steps)
    return counts


@dataclass(frozen=True)
class Rehearsal:
    """Token copies per GPU, measured steps only: [N, L, G] each."""

    before: IntArray
    chosen: IntArray

    def contiguous(self) -> float:
        """max_over_mean_before_mean of the run."""
        return float(max_over_mean(self.before).mean())

    def reached(self) -> float:
        """max_over_mean_mean of the run."""
        return float(max_over_mean(self.chosen).mean())

    def gpu_totals(self) -> IntArray:
        """[G] over all steps and layers, contiguous."""
        return self.before.sum(axis=(0, 1))  # type: ignore[no-any-return]


def rehearse(params: MoeParams, counts: IntArray) -> Rehearsal:
    """What the balancer would make of these counts. counts: [W + N, L, E] of `count_experts`."""
    placement = place_contiguously(params.num_layers, params.num_experts, params.num_gpus)
    shape = ClusterShape(
        params.num_experts + params.redundant_slots_per_gpu * params.num_gpus,
        params.num_gpus,
        params.num_nodes,
        params.num_groups,
    )
    chosen = []
    for step in range(params.warmup_steps, len(counts)):
        if params.eplb and (step - params.warmup_steps) % params.interval_steps == 0:
            recorded = counts[max(step - params.window_steps, 0) : step].sum(axis=0)
            placement = choose_balancer(params.eplb_policy, shape).place(recorded, shape)
        chosen.append(split_over_gpus(placement, counts[step]))
    before = counts[params.warmup_steps :].reshape(len(chosen), params.num_layers, params.num_gpus, -1)
    return Rehearsal(before.sum(axis=3), np.array(chosen))


def split_over_gpus(placement: Placement, load: IntArray) -> IntArray:
    """[L, G] whole tokens when copies take an expert's tokens in turn, lowest slot first. load: [L, E]."""
    layers, slots = placement.experts.shape
    copies = placement.copies()
    turn = np.empty_like(placement.experts)  # which of its expert's copies a slot is
    for layer, experts in enumerate(placement.experts):
        by_expert = np.argsort(experts, kind="stable")
        first = np.cumsum(copies[layer]) - copies[layer]
        turn[layer, by_expert] = np.arange(slots) - first[experts[by_expert]]
    whole, rest = np.divmod(load, copies)
    share = np.take_along_axis(whole, placement.experts, axis=1)
    share = share + (turn < np.take_along_axis(rest, placement.experts, axis=1))
    return share.reshape(layers, placement.num_gpus, -1).sum(axis=2)  # type: ignore[no-any-return]


def imbalance_removed(contiguous: float, reached: float, floor: float) -> float:
    """(contiguous − reached) ÷ (contiguous − floor); 0 where contiguous is not above the floor."""
    return (contiguous - reached) / (contiguous - floor) if contiguous > floor else 0.0
