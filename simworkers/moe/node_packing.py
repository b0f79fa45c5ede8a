"""Groups of experts into nodes: the first step of hierarchical balancing, and the floor under all that follows."""

import functools
import itertools

import numpy as np
from numpy.typing import NDArray

from simworkers.moe.placement import FloatArray, IntArray, max_over_mean

# Up to here every way to split the groups is tried; 35 ways for 8 into 2, 105 for 8 into 4, 5,775 for 12 into 3.
MAX_PARTITIONS = 6_000


def pack_groups(group_load: FloatArray, num_nodes: int) -> IntArray:
    """[R, M] node of each group, M/N groups a node, with the least maximum. group_load: [R, M].

    Exact where there are few ways to split; else falling load into the lightest node with room.
    """
    num_groups = group_load.shape[1]
    ways = _partitions(num_groups, num_nodes)
    if ways is None:
        return _pack_greedily(group_load, num_nodes)
    node_of_group, onehot = ways  # [P, M], [P, N, M]
    node_load = np.einsum("pnm,rm->rpn", onehot, group_load)
    best = node_load.max(axis=2).argmin(axis=1)
    chosen: IntArray = node_of_group[best]
    return chosen


def best_packings(group_load: FloatArray, num_nodes: int, most: int) -> list[IntArray]:
    """Up to `most` ways to split groups over nodes, the levellest first: [M] node of each group. group_load: [M]."""
    ways = _partitions(len(group_load), num_nodes)
    if ways is None:
        return list(_pack_greedily(group_load[None], num_nodes))
    node_of_group, onehot = ways
    largest = (onehot @ group_load).max(axis=1)
    return list(node_of_group[np.argsort(largest, kind="stable")[:most]])


def node_bound(load: NDArray[np.generic], num_groups: int, num_nodes: int) -> FloatArray:
    """[L] best max ÷ mean over nodes while whole groups stay in one node; 1.0 with one node. load: [L, E].

    Exact for up to 8 groups (all that the lab offers); beyond MAX_PARTITIONS ways, what greedy packing finds.
    """
    group_load = load.reshape(len(load), num_groups, -1).sum(axis=2).astype(np.float64)
    node_of_group = pack_groups(group_load, num_nodes)
    onehot = node_of_group[:, None, :] == np.arange(num_nodes)[None, :, None]
    return max_over_mean((onehot * group_load[:, None, :]).sum(axis=2))


def step_node_bound(loads: IntArray, num_groups: int, num_nodes: int) -> FloatArray:
    """[L] what no placement that stays for all steps can beat: mean over steps of max ÷ mean over nodes.

    Whole groups stay in one node, and the split of the groups over the nodes is the best one for these very steps.
    GPUs cannot do better than their node. loads: [N, L, E]. Exact as `node_bound` is.
    """
    steps, layers, _ = loads.shape
    group_load = loads.reshape(steps, layers, num_groups, -1).sum(axis=3).astype(np.float64)  # [N, L, M]
    group_load /= np.maximum(group_load.sum(axis=2, keepdims=True), 1)
    ways = _partitions(num_groups, num_nodes)
    if ways is None:
        node_of_group = _pack_greedily(group_load.sum(axis=0), num_nodes)
        onehot = node_of_group[:, None, :] == np.arange(num_nodes)[None, :, None]
        node_load = np.einsum("lkm,nlm->nlk", onehot, group_load)
        return np.asarray(node_load.max(axis=2).mean(axis=0) * num_nodes)
    largest = np.zeros((layers, len(ways[1])))
    for step in group_load:
        largest += np.einsum("pkm,lm->lpk", ways[1], step).max(axis=2)
    return np.asarray(largest.min(axis=1) / steps * num_nodes)


@functools.cache
def _partitions(num_groups: int, num_nodes: int) -> tuple[IntArray, FloatArray] | None:
    """Every way to split groups over unnamed nodes evenly, or None where there are too many."""
    per_node = num_groups // num_nodes
    ways: list[list[int]] = []

    def fill(node: int, node_of_group: list[int]) -> bool:
        free = [group for group in range(num_groups) if node_of_group[group] < 0]
        if not free:
            ways.append(node_of_group)
            return len(ways) <= MAX_PARTITIONS
        # The first free group opens the next node, so that renamed nodes do not count twice.
        for others in itertools.combinations(free[1:], per_node - 1):
            filled = list(node_of_group)
            for group in (free[0], *others):
                filled[group] = node
            if not fill(node + 1, filled):
                return False
        return True

    if not fill(0, [-1] * num_groups):
        return None
    node_of_group = np.array(ways, dtype=np.int64)
    onehot = (node_of_group[:, None, :] == np.arange(num_nodes)[None, :, None]).astype(np.float64)
    return node_of_group, onehot


def _pack_greedily(group_load: FloatArray, num_nodes: int) -> IntArray:
    rows, num_groups = group_load.shape
    node_of_group = np.empty((rows, num_groups), dtype=np.int64)
    for row in range(rows):
        load, room = np.zeros(num_nodes), np.full(num_nodes, num_groups // num_nodes)
        for group in np.argsort(-group_load[row], kind="stable"):
            node = int(np.where(room > 0, load, np.inf).argmin())
            node_of_group[row, group] = node
            load[node] += group_load[row, group]
            room[node] -= 1
    return node_of_group
