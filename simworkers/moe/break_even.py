"""From which step size on copies pay.

Copies even out tokens, and cost the reading of one more slot's weights. In a small step weights are the bill, so
copies make it longer whatever the skew; in a large one tokens are (METRO, arXiv 2512.09277, measured it). The cost
model prices both placements for every whole number of tokens, as if each step had exactly the given shares.

L layers, E experts, S slots, G GPUs, T step sizes.
"""

from collections.abc import Callable

import numpy as np

from simworkers.moe.cost import CostModel
from simworkers.moe.placement import FloatArray, IntArray, Placement
from simworkers.moe.traffic_params import LARGEST_STEP

_TOKENS = np.arange(1, LARGEST_STEP + 1, dtype=np.float64)
LEAST_GAIN = 1e-9  # of the step time: less is rounding


def break_even_tokens(
    load: IntArray,
    before: Placement,
    after: Placement,
    cost: CostModel,
    top_k: int,
    tick: Callable[[], None] = lambda: None,
) -> int:
    """Least step from which on every one, up to LARGEST_STEP tokens, is shorter with `after`; 0: there is none.

    load: [L, E], of which the shares are taken.
    """
    before_s, after_s = (step_seconds(load, each, cost, top_k, tick) for each in (before, after))
    pays = after_s < before_s * (1 - LEAST_GAIN)
    last_loss = np.flatnonzero(~pays)
    first = int(last_loss[-1]) + 1 if len(last_loss) else 0  # index of a step of first + 1 tokens
    return first + 1 if first < LARGEST_STEP else 0


def step_seconds(
    load: IntArray, placement: Placement, cost: CostModel, top_k: int, tick: Callable[[], None] = lambda: None
) -> FloatArray:
    """[T] seconds of a step of 1 … LARGEST_STEP tokens: Σ over layers of the slowest GPU."""
    share = load / np.maximum(load.sum(axis=1, keepdims=True), 1) / np.maximum(placement.copies(), 1)
    per_slot = top_k * np.take_along_axis(share, placement.experts, axis=1)  # [L, S] copies a token
    total = np.zeros(LARGEST_STEP)
    for layer in per_slot.reshape(len(load), cost.num_gpus, -1):
        links_s = cost.expected_link_s(layer.sum(axis=1))  # [G] a token
        slowest = np.zeros(LARGEST_STEP)
        for slots, link_s in zip(layer, links_s, strict=True):
            np.maximum(slowest, _slots_seconds(slots, cost) + _TOKENS * link_s, out=slowest)
        total += slowest
        tick()
    return total


def _slots_seconds(copies_per_token: FloatArray, cost: CostModel) -> FloatArray:
    """[T] Σ over a GPU's slots of the longer of reading and computing. A slot without any share is not read."""
    token_s = copies_per_token[copies_per_token > 0] * cost.roofline.token_s  # [s] of each slot, for a token
    # From this step size on a slot is bound by arithmetic: its fixed price ends there, its slope begins.
    turning = np.minimum(np.ceil(cost.roofline.read_s / token_s), LARGEST_STEP + 1).astype(np.int64) - 1
    order = np.argsort(turning, kind="stable")
    lengths = np.diff(
        turning[order], prepend=0, append=LARGEST_STEP
    )  # of the stretches between two such points
    reading_s = cost.roofline.read_s * np.arange(len(token_s), -1, -1)
    slope_s = np.concatenate([[0.0], np.cumsum(token_s[order])])
    return np.repeat(reading_s, lengths) + np.repeat(slope_s, lengths) * _TOKENS
