"""The task `balance-hbm`: balance a prefill step's load with copies that fit into an HBM budget.

An instance is drawn so that it can tell people apart: contiguous placement and the sampling floor lie at least 20%
apart, the straggler stands out, moving experts without copies helps a little, copies within the budget nearly reach
the floor, and the last slot that the budget allows still takes away a good part of what one fewer leaves. What the
learner sees is the expert load of an earlier window of the same traffic, not of the graded steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simworkers.hardware import GB, MODELS
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.moe.ledger import keep_ledger
from simworkers.moe.marks import WELL_SET, slots_within_budget
from simworkers.moe.params import MAX_REDUNDANT_SLOTS, MoeParams
from simworkers.moe.placement import IntArray, max_over_mean
from simworkers.moe.rehearsal import Rehearsal, count_experts, imbalance_removed, rehearse
from simworkers.moe.scenes import (
    OBSERVED_STEPS,
    describe,
    drawn_skew,
    gpu_of_busiest_expert,
    observed_load,
    per_gpu,
    straggler,
)
from simworkers.moe.simulate import sampling_floor
from simworkers.rng import Stream

# (experts, top_k, GPUs)
CLUSTERS = ((16, 2, 8), (32, 4, 8), (32, 2, 16))
COPIES = (2, 2, 2, 3)  # slots a GPU that the budget allows, each as likely as it is often
DRAWS = 600  # of an instance

LEAST_DISTANCE = 1.2  # contiguous ÷ sampling floor
LEAST_LEAD = 1.06  # busiest GPU ÷ second busiest, contiguous
MOVING_ALONE = (0.15, 0.55)  # share of the imbalance that rebalancing without copies removes
COPIES_REACH = 0.9  # share that the budget's copies remove
LEAST_EXCESS = 1.01  # one slot fewer than the budget allows ÷ sampling floor
LAST_SLOT_TAKES = 0.45  # of what lies between one slot fewer and the floor


@dataclass(frozen=True)
class _Draw:
    """A candidate: its parameters, the seed of the graded run and that of the window that is shown."""

    params: MoeParams
    seed: int
    observed_seed: int


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    return draw_until_it_serves(seed, "balance-hbm", lambda stream: _try(_draw(stream), progress), DRAWS)


def _try(draw: _Draw, progress: Progress) -> PreparedInstance | None:
    params = draw.params
    counts = count_experts(params, draw.seed, progress)
    contiguous = rehearse(params, counts)
    if not _serves(draw, contiguous, counts, progress):
        return None
    observed = count_experts(params, draw.observed_seed, progress)[:OBSERVED_STEPS].sum(axis=0)
    if not _straggler_is_clear(contiguous, observed):
        return None
    model = MODELS[params.model_profile]
    visible = describe(params, observed) | {
        "accounted_layers": model.moe_layers,
        "expert_bytes": model.expert_bytes(params.weight_precision),
        "hbm_budget_gb": params.hbm_budget_gb,
    }
    return PreparedInstance(params=params.model_dump(), visible=visible, seed=draw.seed)


def _draw(stream: Stream) -> _Draw:
    experts, top_k, gpus = CLUSTERS[stream.integer(len(CLUSTERS))]
    copies = COPIES[stream.integer(len(COPIES))]
    params = MoeParams(
        num_experts=experts,
        top_k=top_k,
        num_gpus=gpus,
        num_layers=2,
        num_groups=1,
        checkpoint_seed=stream.integer(2**31),
        tokens_per_step=8192,
        chunk_tokens=16,
        warmup_steps=8,
        num_steps=16,
        **drawn_skew(stream, 40, 90),
    )
    # Between a tenth and nine tenths of a further slot a GPU stays unused, so that rounding decides nothing.
    slot_bytes = keep_ledger(params, 1).copies * gpus
    budget_gb = round(slot_bytes * (10 * copies + 1 + stream.integer(9)) / 10 / GB, 1)
    params = MoeParams.model_validate(params.model_dump() | {"hbm_budget_gb": budget_gb})
    return _Draw(params, stream.integer(SEEDS), stream.integer(SEEDS))


def _serves(draw: _Draw, rehearsed: Rehearsal, counts: IntArray, progress: Progress) -> bool:
    params = draw.params
    contiguous = rehearsed.contiguous()
    routed = params.tokens_per_step * params.top_k
    steps = params.warmup_steps + params.num_steps
    floor = sampling_floor(routed, params.num_gpus, draw.seed, progress, steps)
    if contiguous < LEAST_DISTANCE * floor:
        return False

    def reached(copies: int) -> float:
        return rehearse(_balanced(params, copies), counts).reached()

    if not MOVING_ALONE[0] <= imbalance_removed(contiguous, reached(0), floor) <= MOVING_ALONE[1]:
        return False
    allowed = slots_within_budget(params)
    saving, full = reached(allowed - 1), reached(allowed)
    return (
        LEAST_EXCESS * floor < saving < contiguous
        and imbalance_removed(contiguous, full, floor) >= COPIES_REACH
        and imbalance_removed(saving, full, floor) >= LAST_SLOT_TAKES
    )


def _straggler_is_clear(contiguous: Rehearsal, observed: IntArray) -> bool:
    totals = np.sort(contiguous.gpu_totals())
    same = straggler(observed, len(totals)) == int(contiguous.gpu_totals().argmax())
    return same and bool(totals[-1] >= LEAST_LEAD * totals[-2])


def _balanced(params: MoeParams, copies: int) -> MoeParams:
    return MoeParams.model_validate(params.model_dump() | _settings(copies))


def _settings(copies: int) -> dict[str, Any]:
    """All recorded steps count, since the mix does not drift; rebalancing again uses what was recorded since."""
    return WELL_SET | {"redundant_slots_per_gpu": copies}


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves everything as it is and guesses that load is even. misconception: believes that moving experts is
    enough, so copies would waste memory, and that the busiest expert tells the imbalance of its GPU. saver: as the
    expert, but one slot short of the budget. expert: adds load per GPU and layer, and buys as many copies as the
    budget holds.
    """
    visible = prepared.visible
    load, gpus = observed_load(prepared), int(visible["num_gpus"])
    slot_bytes = visible["expert_bytes"] * visible["accounted_layers"] * gpus
    copies = min(int(visible["hbm_budget_gb"] * GB // slot_bytes), MAX_REDUNDANT_SLOTS)
    believed = {
        "straggler_gpu": gpu_of_busiest_expert(load, gpus),
        "max_over_mean": round(float(load.max() / load.mean()), 2),
    }
    known = {
        "straggler_gpu": straggler(load, gpus),
        "max_over_mean": round(float(max_over_mean(per_gpu(load, gpus)).mean()), 2),
    }
    return {
        "naive": Submission(params={}, prediction={"straggler_gpu": 0, "max_over_mean": 1.0}),
        "misconception": Submission(params=_settings(0), prediction=believed),
        "saver": Submission(params=_settings(copies - 1), prediction=known),
        "expert": Submission(params=_settings(copies), prediction=known),
    }
