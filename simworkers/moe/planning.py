"""When a placement is made, and which: the balancer's for the recorded load, or the one that was handed in."""

import numpy as np
from numpy.typing import NDArray

from simworkers.moe.balancer import choose_balancer
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import ClusterShape, Placement


def cluster_shape(params: MoeParams) -> ClusterShape:
    """Of the slots that there are; without redundant ones while EPLB is off."""
    return ClusterShape(
        params.num_experts + params.extra_slots_per_gpu * params.num_gpus,
        params.num_gpus,
        params.num_nodes,
        params.num_groups,
    )


def rebalances_before(params: MoeParams, measured: int) -> bool:
    """Whether a placement is put in place before this measured step. One that was handed in stays."""
    if not params.eplb or measured < 0:
        return False
    return measured == 0 if params.placement is not None else measured % params.interval_steps == 0


def plan(params: MoeParams, load: NDArray[np.generic]) -> Placement:
    """load: [L, E] as recorded; a placement that was handed in does not look at it."""
    if params.placement is not None:
        return Placement(np.array(params.placement, dtype=np.int64), params.num_experts, params.num_gpus)
    shape = cluster_shape(params)
    return choose_balancer(params.eplb_policy, shape).place(load, shape)
