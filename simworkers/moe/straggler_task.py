"""The task `predict-straggler`: name the GPU that everyone will wait for, and how far it stands out.

Nothing is set and nothing handed in: the prediction itself is judged, on traffic that is drawn from the same mix as
the observed load and is not the same text. Instances tell people apart: the straggler leads clearly and is the same
in both, and the busiest expert lies on another GPU, so that who looks at experts instead of GPUs is wrong.
"""

import numpy as np

from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import max_over_mean
from simworkers.moe.rehearsal import count_experts, rehearse
from simworkers.moe.scenes import (
    OBSERVED_STEPS,
    describe,
    drawn_skew,
    gpu_of_busiest_expert,
    observed_load,
    per_gpu,
    straggler,
)
from simworkers.rng import Stream

# (experts, top_k, GPUs); several experts a GPU, or the busiest expert would always mark the straggler
CLUSTERS = ((16, 2, 4), (32, 4, 4), (32, 4, 8), (64, 4, 8))
DRAWS = 400
LEAST_LEAD = 1.08  # busiest GPU ÷ second busiest
LEAST_RATIO = 1.3  # max/mean; below it "even" would not be far off
EXPERT_WITHIN = 1.03  # what the observed load says ÷ what comes out, either way


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    return draw_until_it_serves(seed, "predict-straggler", lambda stream: _draw(stream, progress), DRAWS)


def _draw(stream: Stream, progress: Progress) -> PreparedInstance | None:
    experts, top_k, gpus = CLUSTERS[stream.integer(len(CLUSTERS))]
    params = MoeParams(
        num_experts=experts,
        top_k=top_k,
        num_gpus=gpus,
        num_layers=3,
        num_groups=1,
        checkpoint_seed=stream.integer(2**31),
        tokens_per_step=4096,
        chunk_tokens=16,
        warmup_steps=OBSERVED_STEPS,
        num_steps=16,
        **drawn_skew(stream, 30, 100),
    )
    seed = stream.integer(SEEDS)
    counts = count_experts(params, seed, progress)
    observed, graded = counts[:OBSERVED_STEPS].sum(axis=0), counts[OBSERVED_STEPS:].sum(axis=0)
    totals = np.sort(per_gpu(graded, gpus).sum(axis=0))
    slowest = straggler(graded, gpus)
    actual = rehearse(params, counts).contiguous()
    serves = (
        totals[-1] >= LEAST_LEAD * totals[-2]
        and straggler(observed, gpus) == slowest
        and slowest not in (gpu_of_busiest_expert(observed, gpus), gpu_of_busiest_expert(graded, gpus))
        and actual >= LEAST_RATIO
        and 1 / EXPERT_WITHIN
        <= float(max_over_mean(per_gpu(observed, gpus)).mean()) / actual
        <= EXPERT_WITHIN
    )
    if not serves:
        return None
    return PreparedInstance(params=params.model_dump(), visible=describe(params, observed), seed=seed)


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """Each from the visible part alone.

    naive: guesses that load is even. misconception: takes the busiest expert for the straggler, and its share for that
    of its GPU. expert: adds up the experts of each GPU, layer by layer.
    """
    load, gpus = observed_load(prepared), int(prepared.visible["num_gpus"])
    return {
        "naive": Submission(params={}, prediction={"straggler_gpu": 0, "max_over_mean": 1.0}),
        "misconception": Submission(
            params={},
            prediction={
                "straggler_gpu": gpu_of_busiest_expert(load, gpus),
                "max_over_mean": round(float(max_over_mean(load).mean()), 3),
            },
        ),
        "expert": Submission(
            params={},
            prediction={
                "straggler_gpu": straggler(load, gpus),
                "max_over_mean": round(float(max_over_mean(per_gpu(load, gpus)).mean()), 3),
            },
        ),
    }
