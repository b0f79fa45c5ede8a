"""What the tasks of the lab share: drawing until an instance serves, and what is shown of it.

L layers, E experts, G GPUs.
"""

from typing import Any

import numpy as np

from simworkers.hardware import GPUS, MODELS
from simworkers.jobs import PreparedInstance
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import IntArray
from simworkers.moe.traffic_params import DOMAINS
from simworkers.rng import Stream

OBSERVED_STEPS = 8


def drawn_skew(stream: Stream, least_percent: int, most_percent: int) -> dict[str, Any]:
    """A base mix of all domains, and a skew toward one of them in steps of 5%."""
    weights = {f"{domain}_weight": 5 + stream.integer(16) for domain in DOMAINS}
    steps = (most_percent - least_percent) // 5 + 1
    return weights | {
        "skew_domain": DOMAINS[stream.integer(len(DOMAINS))],
        "skew_percent": least_percent + 5 * stream.integer(steps),
    }


def describe(params: MoeParams, observed: IntArray) -> dict[str, Any]:
    """The visible part that all tasks share. observed: [L, E] token copies, summed over the observed steps."""
    model, gpu = MODELS[params.model_profile], GPUS[params.gpu_profile]
    mix = np.array(params.mix())
    shares = zip(params.domains(), mix / mix.sum(), strict=True)
    return {
        "gpu": gpu.name,
        "num_gpus": params.num_gpus,
        "num_experts": params.num_experts,
        "top_k": params.top_k,
        "tokens_per_step": params.tokens_per_step,
        "simulated_layers": params.num_layers,
        "accounted_model": model.name,
        "mix_percent": {domain: round(100 * float(share), 1) for domain, share in shares},
        "observed_steps": OBSERVED_STEPS,
        "observed_load": observed.tolist(),  # [layer][expert]
    }


def per_gpu(load: IntArray, gpus: int) -> IntArray:
    """[L, G] load while experts lie contiguously. load: [L, E]."""
    return load.reshape(len(load), gpus, -1).sum(axis=2)  # type: ignore[no-any-return]


def straggler(load: IntArray, gpus: int) -> int:
    """Busiest GPU over all layers while experts lie contiguously. load: [L, E]."""
    return int(per_gpu(load, gpus).sum(axis=0).argmax())


def gpu_of_busiest_expert(load: IntArray, gpus: int) -> int:
    """Where the expert lies that draws the most over all layers. load: [L, E]."""
    busiest = int(load.sum(axis=0).argmax())
    return busiest // int(load.shape[1] // gpus)


def observed_load(prepared: PreparedInstance) -> IntArray:
    """[L, E] as the learner sees it."""
    return np.array(prepared.visible["observed_load"], dtype=np.int64)
