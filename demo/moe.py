"""What this learner decides in the tasks of the MoE lab, each from what its attempt shows."""

from collections.abc import Callable
from statistics import fmean
from typing import Any


def add_up(seen: dict[str, Any]) -> list[list[float]]:
    """[layer][GPU] observed load while experts lie in order, as many on each GPU."""
    gpus, width = seen["num_gpus"], seen["num_experts"] // seen["num_gpus"]
    return [
        [sum(layer[gpu * width : (gpu + 1) * width]) for gpu in range(gpus)]
        for layer in seen["observed_load"]
    ]


def predict_straggler(seen: dict[str, Any]) -> dict[str, Any]:
    """The fullest GPU is the straggler; how far it stands out is averaged over the layers."""
    load = add_up(seen)
    totals = [sum(column) for column in zip(*load, strict=True)]
    ratio = fmean(max(layer) / fmean(layer) for layer in load)
    return {"prediction": {"straggler_gpu": totals.index(max(totals)), "max_over_mean": round(ratio, 3)}}


def balance(seen: dict[str, Any]) -> dict[str, Any]:
    """Buy as many slots for copies as the budget holds; each costs one expert in every layer of every GPU."""
    slot_bytes = seen["expert_bytes"] * seen["accounted_layers"] * seen["num_gpus"]
    copies = int(seen["hbm_budget_gb"] * 1e9 // slot_bytes)
    params = {"eplb": True, "redundant_slots_per_gpu": copies, "window_steps": 16, "interval_steps": 4}
    return {"params": params} | predict_straggler(seen)


def place(seen: dict[str, Any]) -> dict[str, Any]:
    """Take the balancer's answer, and in each layer the one change that helps most, again and again."""
    placement, ratios = [], []
    for load, row in zip(seen["observed_load"], seen["balancer_placement"], strict=True):
        best = list(row)
        while True:
            changes = [with_change(best, slot, other, seen) for slot in range(len(best)) for other in best]
            found = min((each for each in changes if each), key=lambda each: busiest(each, load, seen))
            if busiest(found, load, seen) >= busiest(best, load, seen):
                break
            best = found
        placement.append(best)
        ratios.append(busiest(best, load, seen) * seen["num_gpus"] / sum(load))
    return {
        "artefact": {"placement": placement},
        "prediction": {"max_over_mean": round(max(fmean(ratios), 1.0), 3)},
    }


def with_change(row: list[int], slot: int, expert: int, seen: dict[str, Any]) -> list[int]:
    """The row with this expert in this slot; its own expert goes where the other came from unless it has a copy left.

    Empty where a group of experts would lie on two nodes.
    """
    size, node_slots = seen["num_experts"] // seen["num_groups"], len(row) // seen["num_nodes"]
    changed = list(row)
    changed[slot] = expert
    if row.count(row[slot]) == 1:
        changed[row.index(expert)] = row[slot]
    nodes = {(each // size, place // node_slots) for place, each in enumerate(changed)}
    return changed if len(nodes) == seen["num_groups"] else []


def busiest(row: list[int], load: list[float], seen: dict[str, Any]) -> float:
    """Load of the busiest GPU if copies share their expert's tokens evenly."""
    shares = [load[expert] / row.count(expert) for expert in row]
    width = seen["slots_per_gpu"]
    return max(sum(shares[start : start + width]) for start in range(0, len(row), width))


def price_copies(seen: dict[str, Any]) -> dict[str, Any]:
    """The smallest step in which the straggler of each layer takes longer than a GPU that shares all load evenly.

    With copies every GPU reads all its slots, or computes and sends an even share, whichever takes longer.
    """
    gpus, width = seen["num_gpus"], seen["slots_per_gpu_before"]
    afield = (gpus - 1) / gpus  # copies that come from another GPU

    def saved_us(tokens: int) -> float:
        saved = 0.0
        for layer in seen["observed_load"]:
            copies = [tokens * seen["top_k"] * load / sum(layer) for load in layer]
            slots_us = [max(seen["slot_read_us"], one * seen["token_compute_us"]) for one in copies]
            parts = [slice(gpu * width, (gpu + 1) * width) for gpu in range(gpus)]
            links_us = [
                afield * seen["copy_link_us"] * max(sum(copies[part]), sum(copies) / gpus) for part in parts
            ]
            slowest = max(sum(slots_us[part]) + link for part, link in zip(parts, links_us, strict=True))
            even = sum(copies) / gpus
            reading = seen["slots_per_gpu_with_eplb"] * seen["slot_read_us"]
            saved += (
                slowest - max(reading, even * seen["token_compute_us"]) - afield * seen["copy_link_us"] * even
            )
        return saved

    low, high = 1, 65_536
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if saved_us(middle) > 0 else (middle + 1, high)
    return {"prediction": {"break_even_tokens": low}}


DECISIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "moe-balance-hbm": balance,
    "moe-predict-straggler": predict_straggler,
    "moe-place-it": place,
    "moe-when-eplb-pays": price_copies,
}
