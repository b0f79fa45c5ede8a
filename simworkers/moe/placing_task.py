"""The task `place-it`: put experts and copies into slots by hand, for an observed load, and beat the balancer.

What is observed is the warm-up of the graded run; what is judged are the steps that follow it. The marks are measured
on those very steps: contiguous placement, the balancer's own answer to the same observed load, and what no placement
that keeps groups whole and stays can beat. Instances leave something to find: the balancer lies at least 5% above the
bound, contiguous placement 20%, and a patient search from the observed load alone comes most of the way to the bound.
"""

import numpy as np

from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.moe.node_packing import step_node_bound
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import IntArray, max_over_mean
from simworkers.moe.placement_search import search_placement
from simworkers.moe.planning import cluster_shape, plan
from simworkers.moe.rehearsal import Rehearsal, count_experts, rehearse, split_over_gpus
from simworkers.moe.scenes import OBSERVED_STEPS, describe, drawn_skew, observed_load
from simworkers.rng import Stream

# (experts, top_k, GPUs, nodes, groups)
CLUSTERS = ((16, 2, 8, 2, 8), (16, 2, 8, 2, 4), (8, 2, 8, 2, 4))
DRAWS = 400
REFERENCE_ABOVE_BOUND = 1.05
CONTIGUOUS_ABOVE_BOUND = 1.2
SEARCH_COMES = 0.6  # of the way from the balancer's answer to the bound


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    return draw_until_it_serves(seed, "place-it", lambda stream: _draw(stream, progress), DRAWS)


def _draw(stream: Stream, progress: Progress) -> PreparedInstance | None:
    experts, top_k, gpus, nodes, groups = CLUSTERS[stream.integer(len(CLUSTERS))]
    params = MoeParams(
        num_experts=experts,
        top_k=top_k,
        num_gpus=gpus,
        num_nodes=nodes,
        num_groups=groups,
        num_layers=2,
        checkpoint_seed=stream.integer(2**31),
        tokens_per_step=8192,
        chunk_tokens=16,
        warmup_steps=OBSERVED_STEPS,
        num_steps=8,
        eplb=True,
        redundant_slots_per_gpu=1,
        window_steps=64,
        interval_steps=256,
        **drawn_skew(stream, 20, 90),
    )
    seed = stream.integer(SEEDS)
    counts = count_experts(params, seed, progress)
    if not _serves(params, counts, rehearse(params, counts)):
        return None
    observed = counts[:OBSERVED_STEPS].sum(axis=0)
    shape = cluster_shape(params)
    visible = describe(params, observed) | {
        "num_nodes": nodes,
        "num_groups": groups,
        "slots_per_gpu": shape.slots_per_gpu,
        "slots_per_layer": shape.num_slots,
        "balancer_placement": plan(params, observed).experts.tolist(),  # [layer][slot]
    }
    return PreparedInstance(params=params.model_dump(), visible=visible, seed=seed)


def _serves(params: MoeParams, counts: IntArray, balancer: Rehearsal) -> bool:
    graded = counts[OBSERVED_STEPS:]
    bound = float(step_node_bound(graded, params.num_groups, params.num_nodes).mean())
    reference = balancer.reached()
    if reference < REFERENCE_ABOVE_BOUND * bound or balancer.contiguous() < CONTIGUOUS_ABOVE_BOUND * bound:
        return False
    if balancer.contiguous() <= reference:
        return False
    found = search_placement(counts[:OBSERVED_STEPS].sum(axis=0), cluster_shape(params))
    searched = float(np.mean([max_over_mean(split_over_gpus(found, step)).mean() for step in graded]))
    return reference - searched >= SEARCH_COMES * (reference - bound)


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """Each from the visible part alone.

    naive: leaves experts where they are and copies the busiest of each GPU beside itself, where it relieves nobody.
    misconception: takes the busiest expert for the whole problem, and puts a copy of its node's on every GPU.
    reference: pastes the balancer's answer. expert: searches patiently, copies split unevenly where that helps.
    """
    params = MoeParams.model_validate(prepared.params)
    load = observed_load(prepared)
    handed_in = {
        "naive": _beside(params, load, nodes=params.num_gpus),
        "misconception": _beside(params, load, nodes=params.num_nodes),
        "reference": prepared.visible["balancer_placement"],
        "expert": search_placement(load, cluster_shape(params)).experts.tolist(),
    }
    return {
        who: Submission(
            params={},
            prediction={"max_over_mean": _expected(params, placement, load)},
            artefact={"placement": placement},
        )
        for who, placement in handed_in.items()
    }


def _expected(params: MoeParams, placement: list[list[int]], load: IntArray) -> float:
    return round(
        float(plan(params.model_copy(update={"placement": placement}), load).max_over_mean(load).mean()), 3
    )


def _beside(params: MoeParams, load: IntArray, nodes: int) -> list[list[int]]:
    """[L][S] contiguous, the extra slot of each GPU with a copy of the busiest expert of its share of `nodes`."""
    gpus = params.num_gpus
    held = np.arange(params.num_experts).reshape(gpus, -1)
    placement = []
    for row in load:
        shares = row.reshape(nodes, -1)
        busiest = shares.argmax(axis=1) + np.arange(nodes) * shares.shape[1]
        extra = np.repeat(busiest, gpus // nodes)[:, None]
        placement.append(np.concatenate([held, extra], axis=1).reshape(-1).tolist())
    return placement
