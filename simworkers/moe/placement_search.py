"""A placement found by patience: start from the balancer's answer and try every single change, again and again.

The balancer is greedy, because it has milliseconds in a serving engine. Whoever has minutes finds what it misses:
copies that split a load unevenly on purpose, an expert that belongs on the other GPU, another split of the groups
over the nodes. Used to draw instances that leave something to find, and as the expert's submission.

L layers, E experts, S slots; n experts and g GPUs of one node.
"""

import numpy as np
from numpy.typing import NDArray

from simworkers.moe.balancer import choose_balancer
from simworkers.moe.node_packing import best_packings
from simworkers.moe.placement import ClusterShape, FloatArray, IntArray, Placement
from simworkers.rng import Stream

KICKS = 8  # random changes after which the descent starts again
PACKINGS = 3  # ways to split the groups over the nodes that are looked at
LEVELLING = 1e-4  # weight of the spread beside the maximum, so that a plateau has a slope


def search_placement(load: NDArray[np.generic], shape: ClusterShape) -> Placement:
    """Under the node rule where groups divide. load: [L, E]. The same answer on every machine."""
    layers = [_search_layer(row, shape, layer) for layer, row in enumerate(load.astype(np.float64))]
    return Placement(np.array(layers), load.shape[1], shape.num_gpus)


def _search_layer(load: FloatArray, shape: ClusterShape, layer: int) -> IntArray:
    """[S] expert in each slot."""
    nodes = shape.num_nodes if shape.groups_divide else 1
    size = len(load) // shape.num_groups
    stream = Stream(20_263, "search", layer)
    found = []
    for node_of_group in best_packings(load.reshape(shape.num_groups, size).sum(axis=1), nodes, PACKINGS):
        slots, peak = [], 0.0
        for node in range(nodes):
            members = np.flatnonzero(np.repeat(node_of_group == node, size))
            copies, largest = _search_node(load[members], shape, nodes, stream)
            peak = max(peak, largest)
            slots += [members[expert] for gpu in copies for expert in np.repeat(np.arange(len(members)), gpu)]
        found.append((peak, np.array(slots, dtype=np.int64)))
    return min(found, key=lambda pair: pair[0])[1]


def _search_node(load: FloatArray, shape: ClusterShape, nodes: int, stream: Stream) -> tuple[IntArray, float]:
    """([g, n] copies of each expert on each GPU, load of the busiest GPU)."""
    gpus, slots = shape.num_gpus // nodes, shape.num_slots // nodes
    start = choose_balancer("global", ClusterShape(slots, gpus)).place(load[None], ClusterShape(slots, gpus))
    held = start.experts[0].reshape(gpus, -1)
    best = _descend(np.array([np.bincount(row, minlength=len(load)) for row in held]), load)
    for _ in range(KICKS):
        tried = _descend(_kick(best[0], stream), load)
        best = min(best, tried, key=lambda pair: pair[1])
    return best[0], float(_gpu_load(best[0], load).max())


def _descend(copies: IntArray, load: FloatArray) -> tuple[IntArray, float]:
    """Take the best single change until none helps."""
    value = float(_badness(copies, load))
    while True:
        changed = _changes(copies)
        values = _badness(changed, load)
        best = int(values.argmin())
        if not values[best] < value * (1 - 1e-9):
            return copies, value
        copies, value = changed[best], float(values[best])


def _changes(copies: IntArray) -> IntArray:
    """[C, g, n] every way to give one slot to another expert, or to swap two slots between GPUs."""
    gpus, experts = copies.shape
    held, other_expert = copies > 0, ~np.eye(experts, dtype=bool)
    spare = held & (copies.sum(axis=0) > 1)
    gives = np.argwhere(spare[:, :, None] & other_expert)  # [·, 3] GPU, old, new
    later = np.triu(np.ones((gpus, gpus), dtype=bool), 1)[:, :, None, None]
    swaps = np.argwhere(
        later & held[:, None, :, None] & held[None, :, None, :] & other_expert
    )  # GPU, GPU, old, new
    changed = np.repeat(copies[None], len(gives) + len(swaps), axis=0)
    index = np.arange(len(gives))
    gpu, old, new = gives.T
    changed[index, gpu, old] -= 1
    changed[index, gpu, new] += 1
    index = len(gives) + np.arange(len(swaps))
    gpu, other, old, new = swaps.T
    changed[index, gpu, old] -= 1
    changed[index, gpu, new] += 1
    changed[index, other, new] -= 1
    changed[index, other, old] += 1
    return changed


def _kick(copies: IntArray, stream: Stream) -> IntArray:
    """Three random changes."""
    for _ in range(3):
        changed = _changes(copies)
        copies = changed[stream.integer(len(changed))]
    return copies


def _gpu_load(copies: IntArray, load: FloatArray) -> FloatArray:
    """[..., g] copies: [..., g, n]."""
    return (copies * (load / copies.sum(axis=-2))[..., None, :]).sum(axis=-1)  # type: ignore[no-any-return]


def _badness(copies: IntArray, load: FloatArray) -> FloatArray:
    per_gpu = _gpu_load(copies, load) / max(float(load.sum()), 1e-300)
    return per_gpu.max(axis=-1) + LEVELLING * (per_gpu**2).sum(axis=-1)  # type: ignore[no-any-return]
