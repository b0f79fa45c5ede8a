"""What must hold in every run, and the first event where it did not."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simworkers.invariants import Invariants
from simworkers.moe.experts import Dispatch, ExpertSlots
from simworkers.moe.placement import Placement

NAMES = (
    "tokens_conserved",  # every choice of every token arrives once, at a slot of the chosen expert
    "experts_placed",  # every expert has a slot in every layer
    "copies_share_evenly",  # copies of an expert differ by one token at most
    "slot_weights_match",  # what lies in a slot is bit for bit its expert
    "outputs_equal_across_shuffle",  # the same tokens give the same outputs before and after
    "groups_stay_in_node",  # all copies of a group of experts share a node
    "copies_within_budget",
    "fits_in_hbm",
)

# Copies split an expert's tokens into GEMMs of other heights, and a float32 GEMM may round by its height: about
# 1e-6 of the largest output was seen. Equal heights give equal bits.
SHUFFLE_TOLERANCE = 1e-5


class Checks(Invariants):
    """Every invariant of the lab, looked at where it could break."""

    def __init__(self) -> None:
        super().__init__(NAMES)

    def dispatch(
        self, where: str, experts: NDArray[np.int16], sent: Dispatch, placement: Placement, layer: int
    ) -> None:
        """experts: [T, k] what the router chose."""
        copies = experts.size
        arrived = np.zeros(copies, dtype=np.int64)
        np.add.at(arrived, sent.order[sent.slot >= 0], 1)
        wrong = np.flatnonzero(arrived != 1)
        if len(wrong) or int(sent.counts.sum()) != copies:
            lost = (
                f"copy {int(wrong[0])} arrived {int(arrived[wrong[0]])} times"
                if len(wrong)
                else "counts differ"
            )
            self.break_(
                "tokens_conserved", f"{where}: {int(sent.counts.sum())} of {copies} copies arrived; {lost}"
            )
            return
        held = placement.experts[layer][sent.slot]
        astray = np.flatnonzero(held != experts.reshape(-1)[sent.order])
        if len(astray):
            slot = int(sent.slot[astray[0]])
            self.break_("tokens_conserved", f"{where}: slot {slot} received a token of another expert")
        self._even_copies(where, sent, placement, layer)

    def _even_copies(self, where: str, sent: Dispatch, placement: Placement, layer: int) -> None:
        experts = placement.experts[layer]
        most = np.zeros(placement.num_experts, dtype=np.int64)
        least = np.full(placement.num_experts, np.iinfo(np.int64).max)
        np.maximum.at(most, experts, sent.counts)
        np.minimum.at(least, experts, sent.counts)
        uneven = np.flatnonzero(most > least + 1)
        if len(uneven):
            self.break_("copies_share_evenly", f"{where}: expert {int(uneven[0])}")

    def placement(self, where: str, placement: Placement, num_groups: int, num_nodes: int) -> None:
        unplaced = placement.first_unplaced()
        if unplaced is not None:
            self.break_(
                "experts_placed", f"{where}: layer {unplaced[0]} has no slot for expert {unplaced[1]}"
            )
        split = first_split_group(placement, num_groups, num_nodes)
        if split is not None:
            event = f"{where}: layer {split[0]} has group {split[1]} on several nodes"
            self.break_by_setting("groups_stay_in_node", event)

    def weights(
        self,
        where: str,
        slots: ExpertSlots,
        placement: Placement,
        known: list[list[int]],
        tick: Callable[[], None],
    ) -> None:
        """known: [L][E] checksums of the experts. tick: called per layer."""
        for layer, experts in enumerate(placement.experts):
            tick()
            for slot, (found, expert) in enumerate(zip(slots.checksums(layer), experts, strict=True)):
                if found != known[layer][expert]:
                    event = f"{where}: layer {layer} slot {slot} does not hold expert {int(expert)}"
                    self.break_("slot_weights_match", event)
                    return


def first_split_group(placement: Placement, num_groups: int, num_nodes: int) -> tuple[int, int] | None:
    """(layer, group) of the first group whose copies lie on several nodes, or None."""
    if num_nodes == 1 or placement.num_experts % num_groups:
        return None
    layers, slots = placement.experts.shape
    group = placement.experts // (placement.num_experts // num_groups)
    node = np.arange(slots) // (slots // num_nodes)
    seen = np.zeros((layers, num_groups, num_nodes), dtype=bool)
    seen[np.arange(layers)[:, None], group, node] = True
    split = np.argwhere(seen.sum(axis=2) > 1)
    return (int(split[0, 0]), int(split[0, 1])) if len(split) else None
