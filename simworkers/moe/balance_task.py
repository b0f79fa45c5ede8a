"""The task `balance-hbm`: balance a prefill step's load with copies that fit into an HBM budget.

An instance is drawn so that it can tell people apart: contiguous placement and the sampling floor lie at least 20%
apart, the straggler stands out, moving experts without copies helps a little, and copies within the budget nearly
reach the floor. What the learner sees is the expert load of an earlier window of the same traffic, not of the graded
steps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simworkers.catalog import PreparedInstance, Progress, Submission
from simworkers.hardware import GB, GPUS, MODELS
from simworkers.moe.ledger import keep_ledger
from simworkers.moe.params import DOMAINS, MoeParams
from simworkers.moe.placement import IntArray, max_over_mean
from simworkers.moe.rehearsal import Rehearsal, count_experts, imbalance_removed, rehearse
from simworkers.moe.simulate import sampling_floor
from simworkers.rng import Stream

# (experts, top_k, GPUs)
CLUSTERS = ((8, 2, 4), (16, 2, 4), (16, 2, 8), (32, 4, 8))
MOST_COPIES = 3  # slots a GPU that the largest budget allows
OBSERVED_STEPS = 8
DRAWS = 200  # of an instance; about one in three serves

LEAST_DISTANCE = 1.2  # contiguous ÷ sampling floor
LEAST_LEAD = 1.06  # busiest GPU ÷ second busiest, contiguous
MOVING_ALONE = (0.15, 0.55)  # share of the imbalance that rebalancing without copies removes
COPIES_REACH = 0.9  # share that the budget's copies remove


@dataclass(frozen=True)
class _Draw:
    """A candidate: its parameters, the seed of the graded run and that of the window that is shown."""

    params: MoeParams
    seed: int
    observed_seed: int
    copies: int  # slots a GPU that the budget allows


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves. The same seed gives the same instance everywhere."""
    for attempt in range(DRAWS):
        draw = _draw(Stream(seed, "balance-hbm", attempt))
        counts = count_experts(draw.params, draw.seed, progress)
        if not _serves(draw, counts, progress):
            continue
        observed = count_experts(draw.params, draw.observed_seed, progress)[:OBSERVED_STEPS].sum(axis=0)
        if _straggler_is_clear(rehearse(draw.params, counts), observed):
            return PreparedInstance(
                params=draw.params.model_dump(), visible=_visible(draw.params, observed), seed=draw.seed
            )
    raise AssertionError(f"none of {DRAWS} draws from seed {seed} serves")


def _draw(stream: Stream) -> _Draw:
    experts, top_k, gpus = CLUSTERS[stream.integer(len(CLUSTERS))]
    weights = {f"{domain}_weight": 5 + stream.integer(16) for domain in DOMAINS}
    copies = 1 + stream.integer(MOST_COPIES)
    params = MoeParams(
        num_experts=experts,
        top_k=top_k,
        num_gpus=gpus,
        num_layers=3,
        num_groups=1,
        checkpoint_seed=stream.integer(2**31),
        skew_domain=DOMAINS[stream.integer(len(DOMAINS))],
        skew_percent=40 + 5 * stream.integer(11),
        tokens_per_step=8192,
        warmup_steps=8,
        num_steps=16,
        **weights,
    )
    # Between a tenth and nine tenths of a further slot a GPU stays unused, so that rounding decides nothing.
    slot_bytes = keep_ledger(params, 1).copies * gpus
    budget_gb = round(slot_bytes * (10 * copies + 1 + stream.integer(9)) / 10 / GB, 1)
    params = MoeParams.model_validate(params.model_dump() | {"hbm_budget_gb": budget_gb})
    return _Draw(params, stream.integer(2**62), stream.integer(2**62), copies)


def _serves(draw: _Draw, counts: IntArray, progress: Progress) -> bool:
    params = draw.params
    contiguous = rehearse(params, counts)
    routed = params.tokens_per_step * params.top_k
    floor = sampling_floor(
        routed, params.num_gpus, draw.seed, progress, params.warmup_steps + params.num_steps
    )
    if contiguous.contiguous() < LEAST_DISTANCE * floor:
        return False

    def removed(copies: int) -> float:
        reached = rehearse(_balanced(params, copies), counts).reached()
        return imbalance_removed(contiguous.contiguous(), reached, floor)

    return MOVING_ALONE[0] <= removed(0) <= MOVING_ALONE[1] and removed(draw.copies) >= COPIES_REACH


def _straggler_is_clear(contiguous: Rehearsal, observed: IntArray) -> bool:
    totals = np.sort(contiguous.gpu_totals())
    same = _straggler(observed, len(totals)) == int(contiguous.gpu_totals().argmax())
    return same and bool(totals[-1] >= LEAST_LEAD * totals[-2])


def _balanced(params: MoeParams, copies: int) -> MoeParams:
    return MoeParams.model_validate(params.model_dump() | _settings(copies))


def _settings(copies: int) -> dict[str, Any]:
    """All recorded steps count, since the mix does not drift; rebalancing again uses what was recorded since."""
    return {"eplb": True, "redundant_slots_per_gpu": copies, "window_steps": 64, "interval_steps": 4}


def _visible(params: MoeParams, observed: IntArray) -> dict[str, Any]:
    model, gpu = MODELS[params.model_profile], GPUS[params.gpu_profile]
    mix = np.array(params.mix())
    shares = {
        domain: round(100 * int(part) / int(mix.sum()), 1) for domain, part in zip(DOMAINS, mix, strict=True)
    }
    return {
        "gpu": gpu.name,
        "num_gpus": params.num_gpus,
        "num_experts": params.num_experts,
        "top_k": params.top_k,
        "tokens_per_step": params.tokens_per_step,
        "simulated_layers": params.num_layers,
        "accounted_model": model.name,
        "accounted_layers": model.moe_layers,
        "expert_bytes": model.expert_bytes(params.weight_precision),
        "hbm_budget_gb": params.hbm_budget_gb,
        "mix_percent": shares,
        "observed_steps": OBSERVED_STEPS,
        "observed_load": observed.tolist(),  # [layer][expert] token copies, summed over the observed steps
    }


def _straggler(load: IntArray, gpus: int) -> int:
    """Busiest GPU of a load [L][E] while experts lie contiguously."""
    return int(load.reshape(len(load), gpus, -1).sum(axis=(0, 2)).argmax())


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What three kinds of learner hand in, each from the visible part alone.

    naive: leaves everything as it is and guesses that load is even. misconception: believes that moving experts is
    enough, so copies would waste memory, and that the busiest expert tells the imbalance of its GPU. expert: adds load
    per GPU and layer, and buys as many copies as the budget holds.
    """
    visible = prepared.visible
    load = np.array(visible["observed_load"], dtype=np.int64)  # [L, E]
    gpus = int(visible["num_gpus"])
    per_gpu = load.reshape(len(load), gpus, -1).sum(axis=2)  # [L, G]
    busiest = int(load.sum(axis=0).argmax())
    slot_bytes = visible["expert_bytes"] * visible["accounted_layers"] * gpus
    copies = int(visible["hbm_budget_gb"] * GB // slot_bytes)
    return {
        "naive": Submission(params={}, prediction={"straggler_gpu": 0, "max_over_mean": 1.0}),
        "misconception": Submission(
            params=_settings(0),
            prediction={
                "straggler_gpu": busiest // (visible["num_experts"] // gpus),
                "max_over_mean": round(float(load.max() / load.mean()), 2),
            },
        ),
        "expert": Submission(
            params=_settings(min(copies, 8)),
            prediction={
                "straggler_gpu": _straggler(load, gpus),
                "max_over_mean": round(float(max_over_mean(per_gpu).mean()), 2),
            },
        ),
    }
