"""What this learner decides in the tasks of the agent lab, each from what its attempt shows."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

Seen = dict[str, Any]
Row = dict[str, Any]
Block = tuple[int, ...]
BLOCK = 64  # tokens


def foresee(seen: Seen) -> dict[str, Any]:
    """Replay the log on each replica's blocks, then look up the watched prompt where the policy sends it."""
    watched, log = seen["watched"], as_rows(seen["log"])
    for row, blocks in zip([*log, watched], name_blocks([*log, watched]), strict=True):
        row["blocks"] = blocks
    caches: defaultdict[int, OrderedDict[Block, None]] = defaultdict(OrderedDict)
    for row in sorted(log, key=lambda row: (row["done_s"] < 0, row["done_s"])):
        cache, left = caches[row["replica"]], what_stays(row, [*log, watched])
        for block in row["blocks"]:
            cache.pop(block, None)
        filled = -(-(row["input_tokens"] + row["output_tokens"] - 1) // BLOCK)
        while cache and len(cache) + filled > seen["kv_blocks_of_a_replica"] and not seen["host_gb"]:
            cache.popitem(last=False)
        nobodys = [(-1, log.index(row), place) for place in range(filled - len(left))]
        cache.update(dict.fromkeys([*nobodys, *reversed(left)]))
    cache = caches[where_to(seen, log)]
    found = 0
    for block in watched["blocks"][: (watched["input_tokens"] - 1) // BLOCK]:
        if block not in cache:
            break
        found += BLOCK
    return {"prediction": {"cached_tokens": found, "new_tokens": watched["input_tokens"] - found}}


def name_blocks(rows: list[Row]) -> list[list[Block]]:
    """The blocks of each prompt: those that it repeats have the names that they had, all others new ones."""
    last: dict[tuple[int, int], list[Block]] = {}
    named = []
    for number, row in enumerate(rows):
        agent = row["session"], row["agent"]
        siblings = [key for key in last if key[0] == row["session"] and key[1] and row["agent"]]
        before = last.get(agent) or (last[max(siblings)] if siblings else [])
        same = before[: row["repeats_tokens"] // BLOCK]
        fresh = [(number, place) for place in range(len(same), row["input_tokens"] // BLOCK)]
        last[agent] = [*same, *fresh]
        named.append(last[agent])
    return named


def what_stays(row: Row, rows: list[Row]) -> list[Block]:
    """The prompt's blocks, and full ones of the answer where the agent's next prompt goes on from it."""
    later = rows[rows.index(row) + 1 :]
    following = next((one for one in later if is_same_agent(one, row)), None)
    if following is None or following["blocks"][: len(row["blocks"])] != row["blocks"]:
        return list(row["blocks"])
    return list(following["blocks"][: (row["input_tokens"] + row["output_tokens"] - 1) // BLOCK])


def where_to(seen: Seen, log: list[Row]) -> int:
    if seen["policy"] == "round_robin":
        return len(log) % int(seen["replicas"])
    if seen["policy"] == "least_queue":
        running = [
            sum(row["replica"] == one and row["done_s"] < 0 for row in log) for one in range(seen["replicas"])
        ]
        return running.index(min(running))
    return int([row for row in log if row["session"] == seen["watched"]["session"]][-1]["replica"])


def is_same_agent(one: Row, other: Row) -> bool:
    return (one["session"], one["agent"]) == (other["session"], other["agent"])


def as_rows(table: list[list[Any]]) -> list[Row]:
    head, *rows = table
    return [dict(zip(head, row, strict=True)) for row in rows]


def buy(seen: Seen) -> dict[str, Any]:
    """Memory that loads faster than GPUs compute: beside a replica where sessions stay, shared where they move."""
    compute, host, pool = (
        seen[f"{what}_us_per_1000_tokens{where}"]
        for what, where in (("compute", ""), ("load", "_from_host"), ("load", "_from_pool"))
    )
    budget, moves = seen["memory_budget_usd"], seen["policy"] in ("least_queue", "round_robin")
    params = {"host_gb": 0, "pool_gb": 0}
    if moves and pool < compute:
        params["pool_gb"] = int(budget / seen["pool_usd_per_gb"])
    elif host < compute:
        params["host_gb"] = int(budget / seen["host_usd_per_gb"] / seen["replicas"])
    return {"params": params, "prediction": {"hit_rate": 0.85 if any(params.values()) else 0.55}}


def divide(seen: Seen) -> dict[str, Any]:
    """Small replicas if one GPU holds three long contexts beside the weights, else large ones, which hold the weights
    least often; sessions stay until theirs is full. At a floor that is near a lone session's pace, about one a GPU."""
    room_gb = seen["hbm_gb_of_a_gpu"] * seen["hbm_percent_for_weights_and_kv"] / 100 - seen["weights_gb"]
    size = 1 if room_gb * 1e9 / seen["kv_bytes_per_token"] >= 600_000 else 8
    return {
        "params": {
            "tensor_parallel": size,
            "replicas": seen["gpu_budget"] // size,
            "pipeline_parallel": 1,
            "policy": "sticky_spill",
        },
        "prediction": {"sessions_at_once": seen["gpu_budget"], "tokens_per_gpu_s": 40.0},
    }


def cap(seen: Seen) -> dict[str, Any]:
    """Three quarters of the chunk that a step as long as the floor allows has time for."""
    alone, small = seen["step_us_of_4_decoding"], seen["step_us_with_1000_prefill_tokens"]
    more = (seen["step_us_with_8000_prefill_tokens"] - small) / 7000  # µs a token, once arithmetic binds
    slack = 1e6 / seen["floor_tokens_per_s"] - alone
    tokens = max(64, round(0.75 * (1000 - (small - alone - slack) / more)))
    params = {"prefill_cap_tokens": tokens}
    return {"params": params, "prediction": {"interactivity_p10": 1.05 * seen["floor_tokens_per_s"]}}


def compare(seen: Seen) -> dict[str, Any]:
    """A pipeline saves sums over the link for every prompt token; it loses where decoding is most of the work."""
    differ, output = seen["may_differ"], seen["given"].get("output_percent", 5)
    is_sparse = seen["active_weights_billions"] < seen["weights_gb"] / 3
    wins = {
        "link": "network",
        "prompts": "fresh",
        "context_percent": 10,
        "output_percent": output,
        "sessions_at_once": 16,
        "token_budget": 1024,
    }
    if differ == "link":
        wins |= {"prompts": "warm" if output <= 10 or is_sparse else "fresh", "sessions_at_once": 4}
    elif differ == "prompts" and is_sparse:
        wins |= {"link": "nvlink", "sessions_at_once": 64}
    elif differ == "prompts":
        wins |= {"sessions_at_once": 1 if output < 40 else 16}
    elif differ == "output_percent":
        wins |= {"prompts": "warm"}
    else:
        wins |= {"link": "nvlink", "sessions_at_once": 64}
    wins |= seen["given"]
    other = {"link": "nvlink", "prompts": "warm", "output_percent": 100, "sessions_at_once": 1}[differ]
    return {
        "artefact": {"pp_wins": wins, "pp_loses": wins | {differ: other}},
        "prediction": {"wins_ratio": 1.3, "loses_ratio": 0.6},
    }


def weigh(seen: Seen) -> dict[str, Any]:
    """A warm cache first, less what waits and what is held there, as much as this router makes of it."""
    unit = seen["loads_percent"] / 100
    loads = {"queued": 0.1 / unit, "pending_tokens": 0.1 / unit, "kv_held": 0.5 / unit}
    weights = {"cached": 1.0, "same_replica": 0.0, **loads}
    return {
        "params": {f"weight_{name}": weight for name, weight in weights.items()},
        "prediction": {"hit_rate": 0.9, "waited_tokens_per_s": 40.0},
    }


def outlive(seen: Seen) -> dict[str, Any]:
    """All memory behind the faster link. Where it is a replica's own, sessions stay; where it is shared, they leave a
    replica which is full."""
    if seen["host_gb_per_s"] > seen["pool_gb_per_s"]:
        params = {"policy": "sticky", "host_gb": seen["memory_offer_gb"] // seen["replicas"]}
    else:
        params = {"policy": "sticky_spill", "pool_gb": seen["memory_offer_gb"]}
    return {"params": params, "prediction": {"ttft_mean_us": 2e6, "moves": seen["sessions"]}}


DECISIONS: dict[str, Callable[[Seen], dict[str, Any]]] = {
    "agent-best-throughput": divide,
    "agent-predict-cached-share": foresee,
    "agent-route-by-score": weigh,
    "agent-survive-a-death": outlive,
    "agent-tiers-within-budget": buy,
    "agent-cap-prefills": cap,
    "agent-pipeline-or-tensor": compare,
}
