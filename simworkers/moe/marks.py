"""The marks that a setting is measured against, all on the traffic that the run served.

What the balancer itself would reach, what it would reach with less than the budget, what no placement can beat, and
from which step size on copies pay. W warm-up and N measured steps, L layers, E experts.
"""

from collections.abc import Callable
from typing import Any

from simworkers.moe.break_even import break_even_tokens
from simworkers.moe.cost import CostModel
from simworkers.moe.ledger import budget_bytes, keep_ledger
from simworkers.moe.node_packing import node_bound, step_node_bound
from simworkers.moe.params import MAX_REDUNDANT_SLOTS, MoeParams
from simworkers.moe.placement import IntArray, place_contiguously
from simworkers.moe.planning import plan
from simworkers.moe.rehearsal import rehearse

# How the balancer is set where a mark must not hang on what a learner has set.
WELL_SET = {"eplb": True, "eplb_policy": "auto", "window_steps": 64, "interval_steps": 4}


def measure_marks(
    params: MoeParams, counts: IntArray, cost: CostModel, tick: Callable[[], None]
) -> dict[str, Any]:
    """counts: [W + N, L, E] of a whole run."""
    on = params.model_copy(update={"eplb": True})
    balancer = on.model_copy(update={"placement": None})
    saving = balancer.model_copy(
        update=WELL_SET | {"redundant_slots_per_gpu": max(slots_within_budget(params) - 1, 0)}
    )
    measured = counts[params.warmup_steps :]
    load = measured.sum(axis=0)
    bound = step_bound = 1.0
    if params.num_nodes > 1 and params.num_groups % params.num_nodes == 0:
        bound = float(node_bound(load, params.num_groups, params.num_nodes).mean())
        step_bound = float(step_node_bound(measured, params.num_groups, params.num_nodes).mean())
    contiguous = place_contiguously(params.num_layers, params.num_experts, params.num_gpus)
    return {
        "node_bound": bound,
        "step_node_bound": step_bound,
        "max_over_mean_reference_mean": rehearse(balancer, counts, tick).reached(),
        "max_over_mean_saving_mean": rehearse(saving, counts, tick).reached(),
        "break_even_tokens": break_even_tokens(load, contiguous, plan(on, load), cost, params.top_k, tick),
    }


def slots_within_budget(params: MoeParams) -> int:
    """Redundant slots a GPU that the HBM budget allows, of those that the lab offers."""
    return min(budget_bytes(params) // (keep_ledger(params, 1).copies * params.num_gpus), MAX_REDUNDANT_SLOTS)
