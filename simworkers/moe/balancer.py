"""Expert-parallel load balancing: how many copies each expert gets, and which GPU holds them.

Own implementation of the published algorithm (DeepSeek's EPLB, 2025): extra copies go one by one to the expert with
the highest load per copy; copies go by falling load to the lightest GPU with room. Two additions of ours: an expert
never gets more copies than there are GPUs to hold them, since one on each already shares it evenly; and a few swaps
between the heaviest and the lightest GPU follow the packing. All layers are balanced at once.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simworkers.moe.node_packing import pack_groups
from simworkers.moe.placement import ClusterShape, FloatArray, IntArray, Placement

MAX_SWAPS = 10
CLOSE_ENOUGH = 1.002  # max/mean; below it swaps gain nothing that a step could feel


class Balancer(Protocol):
    """Anything that turns recorded load into a placement."""

    def place(self, load: NDArray[np.generic], shape: ClusterShape) -> Placement:
        """load: [L, E], finite and not negative."""
        ...


class GlobalBalancer:
    """Copies and slots over all GPUs, wherever they are."""

    def place(self, load: NDArray[np.generic], shape: ClusterShape) -> Placement:
        _check(load, shape)
        slots = _balance_rows(load.astype(np.float64), shape.num_slots, shape.num_gpus)
        return Placement(slots, load.shape[1], shape.num_gpus)


class HierarchicalBalancer:
    """Groups to nodes first, then copies and slots within each node: all copies of a group share a node."""

    def place(self, load: NDArray[np.generic], shape: ClusterShape) -> Placement:
        _check(load, shape)
        if not shape.groups_divide:
            raise ValueError(
                f"num_groups: {shape.num_groups} groups do not divide over {shape.num_nodes} nodes"
            )
        layers, experts = load.shape
        nodes, size = shape.num_nodes, experts // shape.num_groups
        group_load = load.reshape(layers, shape.num_groups, size).sum(axis=2).astype(np.float64)
        node_of_group = pack_groups(group_load, nodes)
        # Groups in node order: row (layer, node) of what follows sees the experts of its own groups alone.
        groups = np.argsort(node_of_group, axis=1, kind="stable")
        members = (groups[:, :, None] * size + np.arange(size)).reshape(layers * nodes, experts // nodes)
        layer = np.repeat(np.arange(layers), nodes)[:, None]
        local_load = load.astype(np.float64)[layer, members]
        local = _balance_rows(local_load, shape.num_slots // nodes, shape.num_gpus // nodes)
        slots = np.take_along_axis(members, local, axis=1).reshape(layers, shape.num_slots)
        return Placement(slots, experts, shape.num_gpus)


def choose_balancer(policy: str, shape: ClusterShape) -> Balancer:
    """policy: "hierarchical", "global", or "auto": hierarchical where groups divide by several nodes."""
    if policy == "hierarchical" and shape.num_nodes > 1:
        return HierarchicalBalancer()
    if policy == "auto" and shape.groups_divide:
        return HierarchicalBalancer()
    return GlobalBalancer()


def _check(load: NDArray[np.generic], shape: ClusterShape) -> None:
    experts = load.shape[1]
    if experts > shape.num_slots:
        raise ValueError(f"num_slots: {shape.num_slots} slots cannot hold {experts} experts")
    if experts % shape.num_groups:
        raise ValueError(f"num_groups: {experts} experts do not fill {shape.num_groups} groups evenly")


def _balance_rows(load: FloatArray, num_slots: int, num_gpus: int) -> IntArray:
    """[R, S] expert in each slot; every row is a problem of its own. load: [R, E]."""
    copies = _count_copies(load, num_slots, num_gpus)
    slots, peak = _pack_slots(load, copies, num_gpus)
    # The cap on copies costs a slot elsewhere; where it bound, keep whichever packs better.
    capped = np.flatnonzero((copies == num_gpus).any(axis=1))
    if len(capped):
        others, other_peak = _pack_slots(
            load[capped], _count_copies(load[capped], num_slots, num_slots), num_gpus
        )
        better = other_peak < peak[capped]
        slots[capped[better]] = others[better]
    return slots


def _count_copies(load: FloatArray, num_slots: int, most: int) -> IntArray:
    """[R, E] copies of each expert, at most `most` while others still have room."""
    rows, experts = load.shape
    most = max(most, -(-num_slots // experts))
    copies = np.ones((rows, experts), dtype=np.int64)
    flat_copies, flat_load = copies.reshape(-1), load.reshape(-1)
    per_copy = load.copy()
    flat_per_copy = per_copy.reshape(-1)
    first = np.arange(rows) * experts
    for _ in range(num_slots - experts):
        busiest = first + per_copy.argmax(axis=1)
        count = flat_copies[busiest] + 1
        flat_copies[busiest] = count
        flat_per_copy[busiest] = np.where(count < most, flat_load[busiest] / count, -1.0)
    return copies


def _pack_slots(load: FloatArray, copies: IntArray, num_gpus: int) -> tuple[IntArray, FloatArray]:
    """([R, S] expert in each slot, [R] load of the heaviest GPU). Every GPU gets S/G slots."""
    rows, experts = load.shape
    num_slots = int(copies[0].sum())
    per_gpu = num_slots // num_gpus
    expert = np.repeat(np.tile(np.arange(experts), rows), copies.reshape(-1)).reshape(rows, num_slots)
    weight = np.take_along_axis(load / copies, expert, axis=1)
    falling = np.argsort(-weight, axis=1, kind="stable")
    expert = np.take_along_axis(expert, falling, axis=1)
    weight = np.ascontiguousarray(np.take_along_axis(weight, falling, axis=1).T)  # [S, R]

    lightest_key = np.zeros((rows, num_gpus))  # the load, or infinity once the GPU is full
    flat_key = lightest_key.reshape(-1)
    filled = np.zeros(rows * num_gpus, dtype=np.int64)
    first = np.arange(rows) * num_gpus
    gpu = np.empty((num_slots, rows), dtype=np.int64)  # flattened (row, GPU) that each copy goes to
    place = np.empty((num_slots, rows), dtype=np.int64)  # and its place on that GPU
    # While no GPU holds anything, the lightest are simply the first ones, in order.
    gpu[:num_gpus] = first + np.arange(num_gpus)[:, None]
    place[:num_gpus] = 0
    filled += 1
    lightest_key[:] = weight[:num_gpus].T if per_gpu > 1 else np.inf
    for slot in range(num_gpus, num_slots):
        chosen = np.add(lightest_key.argmin(axis=1), first, out=gpu[slot])
        count = filled.take(chosen, out=place[slot])
        total = flat_key.take(chosen)
        total += weight[slot]
        if slot >= per_gpu:
            total[count == per_gpu - 1] = np.inf
        flat_key[chosen] = total
        filled[chosen] = count + 1
    cell = gpu * per_gpu + place
    slots = np.empty(rows * num_slots, dtype=np.int64)
    slot_weight = np.empty(rows * num_slots)
    slots[cell] = expert.T
    slot_weight[cell] = weight
    shaped = slots.reshape(rows, num_gpus, per_gpu)
    shaped_weight = slot_weight.reshape(rows, num_gpus, per_gpu)
    gpu_load = shaped_weight.sum(axis=2)
    _swap_slots(shaped, shaped_weight, gpu_load)
    return slots.reshape(rows, num_slots), gpu_load.max(axis=1)


def _swap_slots(slots: IntArray, weight: FloatArray, gpu_load: FloatArray) -> None:
    """Swap slots of the heaviest and the lightest GPU while that lowers the heaviest. Works in place.

    slots, weight: [R, G, per_gpu]; gpu_load: [R, G].
    """
    per_gpu = slots.shape[2]
    mean = gpu_load.mean(axis=1)
    rows = np.flatnonzero(gpu_load.max(axis=1) > CLOSE_ENOUGH * mean)
    for _ in range(MAX_SWAPS):
        if not len(rows):
            return
        heavy, light = gpu_load[rows].argmax(axis=1), gpu_load[rows].argmin(axis=1)
        gap = gpu_load[rows, heavy] - gpu_load[rows, light]
        shift = weight[rows, heavy][:, :, None] - weight[rows, light][:, None, :]  # [r, per_gpu, per_gpu]
        miss = np.abs(shift - gap[:, None, None] / 2).reshape(len(rows), -1)
        pair = miss.argmin(axis=1)
        moved = shift.reshape(len(rows), -1)[np.arange(len(rows)), pair]
        useful = (moved > 1e-12 * gap) & (moved < gap * (1 - 1e-12))
        rows, heavy, light, pair, moved = (part[useful] for part in (rows, heavy, light, pair, moved))
        here, there = pair // per_gpu, pair % per_gpu
        for table in (slots, weight):
            kept = table[rows, heavy, here]
            table[rows, heavy, here] = table[rows, light, there]
            table[rows, light, there] = kept
        gpu_load[rows, heavy] -= moved
        gpu_load[rows, light] += moved
        still = gpu_load[rows].max(axis=1) > CLOSE_ENOUGH * mean[rows]
        rows = rows[still]
