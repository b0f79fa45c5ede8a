"""What this learner decides in the tasks of the multimodal lab, each from what its attempt shows."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

Seen = dict[str, Any]
Row = dict[str, Any]
BLOCK = 16  # tokens of a KV block
SAME_FILE = ("same_bytes", "normalised")
CLOCK_TOKENS = 4


def warm(seen: Seen) -> dict[str, Any]:
    """Normalise once before the first send, and keep KV of every chat: then nobody asks for embeddings again."""
    texts = seen["system_tokens"] + seen["turns"] * (seen["question_tokens"] + seen["answer_tokens"])
    chat = texts + 2 * seen["max_image_tokens"]
    params = {
        "client": "normalised",
        "identity": "bytes",
        "salt": "none",
        "kv_blocks": seen["users"] * -(-chat // BLOCK),
        "encoder_cache_embeddings": seen["max_image_tokens"],
    }
    return {"params": params, "prediction": {"encode_again": False, "ttft_turn2_us": 30_000.0}}


def follow(seen: Seen) -> dict[str, Any]:
    """Walk the second turn through the caches: what changed first, and did the pool keep what came before it?"""
    same_file = seen["client"] in SAME_FILE
    same_processor = seen["processor_change_turn"] != 2
    by = {
        "bytes": same_file,
        "pixels": same_file or seen["client"] == "lossless_resave",
        "client_id": True,
    }
    same_image = by[seen["identity"]] and same_processor
    texts = seen["system_tokens"] + seen["question_tokens"] + seen["answer_tokens"]
    first_turn = texts + seen["picture_tokens_turn_1"] - 1  # the last output has no KV
    prompt = texts + seen["question_tokens"] + seen["picture_tokens_turn_2"]
    prompt += seen["picture_tokens_turn_1"] * (seen["second_picture_turn"] == 2)
    same = first_turn if same_image else seen["system_tokens"]
    if seen["changing_text"]:
        same = seen["system_tokens"] - CLOCK_TOKENS
    if not seen["prefix_caching"] or seen["salt"] == "turn":
        same = 0
    cached = BLOCK * min(same // BLOCK, (prompt - 1) // BLOCK, surviving_blocks(seen, first_turn))
    pictures = 1 if seen["same_picture"] else seen["users"]
    keeps_patches = pictures * seen["patch_bytes_per_picture"] <= seen["preprocess_cache_mb"] * 1e6
    keeps_embeddings = pictures * seen["picture_tokens_turn_1"] <= seen["encoder_cache_embeddings"]
    is_covered = cached >= seen["system_tokens"] + seen["picture_tokens_turn_2"]
    return {
        "prediction": {
            "preprocess_again": not (same_file and same_processor and keeps_patches),
            "encode_again": not (is_covered or (same_image and keeps_embeddings and seen["encoder_caching"])),
            "cached_tokens": cached,
            "new_tokens": prompt - cached,
        }
    }


def surviving_blocks(seen: Seen, tokens: int) -> int:
    """Leading blocks of user 0's first turn that no later turn pushed out; its tail is pushed out first."""
    shared = seen["system_tokens"] // BLOCK if seen["salt"] == "none" else 0
    full, whole = tokens // BLOCK, -(-tokens // BLOCK)
    free: OrderedDict[tuple[int, int], None] = OrderedDict()
    never_used = seen["kv_blocks"]
    for user in range(seen["users"]):
        names = [(0 if block < shared else user, block) for block in range(whole)]
        found = 0
        while found < shared and names[found] in free:
            found += 1
        for name in names[:found]:
            del free[name]
        fresh = whole - found - never_used
        never_used = max(never_used - (whole - found), 0)
        for _ in range(max(fresh, 0)):
            free.popitem(last=False)
        for name in reversed(names):  # a partly filled block has no name that anyone looks for
            free[name if name[1] < full else (-1 - user, name[1])] = None
    kept = 0
    while kept < full and (0, kept) in free:
        kept += 1
    return kept


def diagnose(seen: Seen) -> dict[str, Any]:
    """The first turn that does work again, and what differs in it: from the client on to the caches' room."""
    turns, pictures = (as_rows(seen[name]) for name in ("turns", "pictures"))
    for now in sorted(turns, key=lambda row: row["turn"]):
        before = match(turns, now, now["turn"] - 1)
        if not before:
            continue
        sent = [(one, match(pictures, one, now["turn"] - 1)) for one in pictures if is_of(one, now)]
        cause, sign = what_differs(now, before[0], sent, seen)
        if cause:
            return {"prediction": {"cause": cause, "turn": now["turn"], "sign": sign}}
    raise ValueError("nothing is wrong in this telemetry")


def what_differs(now: Row, before: Row, sent: list[tuple[Row, list[Row]]], seen: Seen) -> tuple[int, int]:
    """(cause, sign) by their numbers in the task; (0, 0) where nothing was done again."""
    names = {(one["identifier"], one["pixels"]) for one, _ in sent}
    if len({identifier for identifier, _ in names}) < len(names):
        return 6, 4
    pairs = [(one, old[0]) for one, old in sent if old]
    left = (
        before["prompt_tokens"]
        + before["output_tokens"]
        - 1
        + sum(a["tokens"] - b["tokens"] for a, b in pairs)
    )
    lacks_kv = seen["prefix_caching"] and now["cached_tokens"] < left // BLOCK * BLOCK
    encoded, preprocessed = (any(one[stage] for one, _ in pairs) for stage in ("encoded", "preprocessed"))
    if not (lacks_kv or encoded or preprocessed):
        return 0, 0
    for field, cause, sign in (("pixels", 1, 8), ("file", 2, 3), ("tokens", 3, 12)):
        if any(one[field] != old[field] for one, old in pairs):
            return cause, sign
    if lacks_kv and now["namespace"] != before["namespace"]:
        return 4, 6
    if lacks_kv:
        is_full = now["kv_blocks_used"] >= 0.9 * seen["kv_blocks_capacity"]
        return (7, 5) if is_full else (5, 1)
    return (8, 2) if encoded else (9, 7)


def as_rows(table: list[list[Any]]) -> list[Row]:
    head, *rows = table
    return [dict(zip(head, row, strict=True)) for row in rows]


def is_of(picture: Row, turn: Row) -> bool:
    return (picture["user"], picture["turn"]) == (turn["user"], turn["turn"])


def match(rows: list[Row], like: Row, turn: int) -> list[Row]:
    """Rows of the same user (and picture) in another turn."""
    keys = [key for key in ("user", "picture") if key in like]
    return [row for row in rows if row["turn"] == turn and all(row[key] == like[key] for key in keys)]


def size(seen: Seen) -> dict[str, Any]:
    """Play the log on a cache of every useful size, and take the size whose misses and memory cost least together."""
    log = as_rows(seen["log"])
    least, step = seen["max_image_tokens"], max(min(row["embeddings"] for row in log) // 2, 1)
    everything = sum({row["picture"]: row["embeddings"] for row in log}.values())
    memory_us = seen["window_us"] * seen["embedding_bytes"] / seen["hbm_bytes"]  # of one embedding

    def cost(capacity: int) -> float:
        return sum(row["encode_us"] for row in missed(log, capacity)) + capacity * memory_us

    best = min(range(least, max(everything, least) + step, step), key=cost)
    return {
        "params": {"encoder_cache_embeddings": best},
        "prediction": {"images_encoded": len(missed(log, best))},
    }


def missed(log: list[Row], capacity: int) -> list[Row]:
    """Rows whose picture was not there; the one unused longest goes first."""
    cache: OrderedDict[str, int] = OrderedDict()
    misses = []
    for row in log:
        if row["picture"] not in cache:
            misses.append(row)
        cache[row["picture"]] = row["embeddings"]
        cache.move_to_end(row["picture"])
        while sum(cache.values()) > capacity:
            cache.popitem(last=False)
    return misses


def divide(seen: Seen) -> dict[str, Any]:
    """Encoders gain only where a group would wait for one of its GPUs; then as many as their share of the work."""
    group, gpus = seen["tensor_parallel"], seen["num_gpus"]
    workers = 0
    if group > 1 and not seen["spread_images"]:
        share = seen["image_share_percent"] / 100
        encoding = share * seen["encode_us_of_a_request"]
        prefill = share * seen["prefill_us_with_pictures"] + (1 - share) * seen["prefill_us_without_pictures"]
        decoding = seen["output_tokens_mean"] * seen["decode_step_us"] / seen["decode_step_requests"]
        language = group * (prefill + decoding)
        workers = round(gpus * encoding / (encoding + language) / group) * group
        workers = min(workers, gpus - group)
    return {
        "params": {"cluster_encoder_workers": workers},
        "prediction": {"tokens_per_gpu_s": 200.0},
    }


DECISIONS: dict[str, Callable[[Seen], dict[str, Any]]] = {
    "multimodal-warm-turn-2": warm,
    "multimodal-predict-turn-2": follow,
    "multimodal-diagnose": diagnose,
    "multimodal-size-encoder-cache": size,
    "multimodal-encoder-workers": divide,
}
