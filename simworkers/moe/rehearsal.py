"""The counts of a run without its experts: what the router alone decides, exactly as a run would report it.

Tasks are drawn with it, because it takes a tenth of the time; a test holds it against the real run.
N steps, L layers, E experts, G GPUs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simworkers.jobs import Progress
from simworkers.moe.gate import library_of, route
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import IntArray, Placement, max_over_mean, place_contiguously
from simworkers.moe.planning import plan, rebalances_before
from simworkers.rng import Stream
from simworkers.text import draw_traffic


def count_experts(params: MoeParams, seed: int, progress: Progress) -> IntArray:
    """[W + N, L, E] token copies for each expert in each step, warm-up steps first."""
    library = library_of(params)
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


def rehearse(params: MoeParams, counts: IntArray, tick: Callable[[], None] = lambda: None) -> Rehearsal:
    """What these settings make of these counts. counts: [W + N, L, E] of `count_experts`. tick: called per step."""
    placement = place_contiguously(params.num_layers, params.num_experts, params.num_gpus)
    turns = slot_turns(placement)
    chosen = []
    for step in range(params.warmup_steps, len(counts)):
        if rebalances_before(params, step - params.warmup_steps):
            placement = plan(params, counts[max(step - params.window_steps, 0) : step].sum(axis=0))
            turns = slot_turns(placement)
        chosen.append(split_over_gpus(placement, counts[step], turns))
        tick()
    before = counts[params.warmup_steps :].reshape(len(chosen), params.num_layers, params.num_gpus, -1)
    return Rehearsal(before.sum(axis=3), np.array(chosen))


def slot_turns(placement: Placement) -> IntArray:
    """[L, S] which of its expert's copies a slot holds, lowest slot first."""
    turns = np.empty_like(placement.experts)
    for layer, (experts, copies) in enumerate(zip(placement.experts, placement.copies(), strict=True)):
        by_expert = np.argsort(experts, kind="stable")
        first = np.cumsum(copies) - copies
        turns[layer, by_expert] = np.arange(len(experts)) - first[experts[by_expert]]
    return turns


def split_over_gpus(placement: Placement, load: IntArray, turns: IntArray | None = None) -> IntArray:
    """[L, G] whole tokens when copies take an expert's tokens in turn, lowest slot first. load: [L, E]."""
    turns = slot_turns(placement) if turns is None else turns
    whole, rest = np.divmod(load, placement.copies())
    share = np.take_along_axis(whole, placement.experts, axis=1)
    share = share + (turns < np.take_along_axis(rest, placement.experts, axis=1))
    return share.reshape(len(load), placement.num_gpus, -1).sum(axis=2)  # type: ignore[no-any-return]


def imbalance_removed(contiguous: float, reached: float, floor: float) -> float:
    """(contiguous − reached) ÷ (contiguous − floor); 0 where contiguous is not above the floor."""
    return (contiguous - reached) / (contiguous - floor) if contiguous > floor else 0.0
