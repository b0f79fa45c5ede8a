"""The task `warm-turn-2`: make turn 2 and later ones warm within a memory budget, and mistake no picture for another.

The app of the instance encodes every picture as JPEG again at each send, so that file, pixels and hashes change, and
its caches are far above the budget. The budget holds the KV of all chats beside the smallest encoder cache, and
nothing worth naming more: whoever keeps a large encoder cache, which is idle wherever KV covers the picture, loses KV.
Each user adds a second picture, so that one id for a whole chat answers from the wrong one.
"""

from typing import Any

from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.scenes import QUIET_CLUSTER, one_of, play_metrics
from simworkers.multimodal.stage_cost import encode
from simworkers.multimodal.stages import Prices
from simworkers.multimodal.work import longest_chat
from simworkers.rng import Stream

# (width, height) in pixels, (width ÷ 28) × (height ÷ 28) tokens
SIZES = ((252, 196), (280, 196), (308, 196), (252, 224))
DRAWS = 60
LEAST_DISTANCE = 1.2  # cold ÷ warm
EXPERT_REACHES = 0.9  # of the way from cold to warm
JPEG_REACHES = 0.3  # at most, where pixels are hashed and the app stays as it is
MB = 1e6


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    return draw_until_it_serves(seed, "warm-turn-2", lambda stream: _draw(stream, progress), DRAWS)


def _draw(stream: Stream, progress: Progress) -> PreparedInstance | None:
    params = _draw_params(stream)
    instance = PreparedInstance(
        params=params.model_dump(), visible=_describe(params), seed=stream.integer(SEEDS)
    )
    handed_in = references(instance)
    expert, misled = (
        play_metrics(
            MultimodalParams.model_validate(instance.params | handed_in[who].params), instance.seed, progress
        )
        for who in ("expert", "misconception")
    )
    serves = (
        expert["server_later_cold_us"] >= LEAST_DISTANCE * expert["server_later_warm_us"]
        and _reached(expert) >= EXPERT_REACHES
        and _reached(misled) <= JPEG_REACHES
    )
    return instance if serves else None


def _reached(metrics: dict[str, Any]) -> float:
    """Of the way from everything cold to everything warm."""
    cold, warm = metrics["server_later_cold_us"], metrics["server_later_warm_us"]
    return float((cold - metrics["server_later_us"]) / (cold - warm))


def _draw_params(stream: Stream) -> MultimodalParams:
    width, height = one_of(stream, SIZES)
    values = QUIET_CLUSTER | {
        "picture": one_of(stream, ("dashboard", "terminal", "photo")),
        "image_width_px": width,
        "image_height_px": height,
        "max_image_tokens": width * height // 28**2,
        "users": 3 + stream.integer(2),
        "turns": 3,
        "second_picture_turn": 1,
        "system_tokens": 24 + 8 * stream.integer(6),
        "question_tokens": 12 + 4 * stream.integer(6),
        "answer_tokens": 4 + 2 * stream.integer(4),
        "client": "jpeg",
        "jpeg_quality": 60 + 5 * stream.integer(6),
        "identity": one_of(stream, ("bytes", "pixels")),
        "client_id_per": "chat",
        "salt": one_of(stream, ("none", "turn")),
        "gpu": "h20",  # few FLOPs for its bandwidth: prefill of a short prompt costs time there already
    }
    params = MultimodalParams.model_validate(values)
    prices = Prices(params)
    smallest = params.max_image_tokens * prices.embedding_bytes
    # Between a tenth and nine tenths of a further KV block stay unused, so that rounding decides nothing.
    spare = prices.kv_block_bytes * (1 + stream.integer(9)) / 10
    budget = _blocks_of_all_chats(values) * prices.kv_block_bytes + smallest + spare
    return MultimodalParams.model_validate(params.model_dump() | {"cache_budget_mb": round(budget / MB, 1)})


def _blocks_of_all_chats(values: dict[str, Any]) -> int:
    """KV blocks that hold every chat to its end."""
    return int(values["users"] * -(-longest_chat(values) // BLOCK_SIZE))


def _describe(params: MultimodalParams) -> dict[str, Any]:
    prices = Prices(params)
    shown = (
        "users",
        "turns",
        "second_picture_turn",
        "system_tokens",
        "question_tokens",
        "answer_tokens",
        "picture",
        "image_width_px",
        "image_height_px",
        "max_image_tokens",
        "jpeg_quality",
        "model",
        "gpu",
        "cache_budget_mb",
    )
    today = ("client", "identity", "client_id_per", "salt", "kv_blocks", "encoder_cache_embeddings")
    values = params.model_dump()
    sizes = {
        "block_tokens": BLOCK_SIZE,
        "kv_block_bytes": prices.kv_block_bytes,
        "embedding_bytes": prices.embedding_bytes,
    }
    return {name: values[name] for name in shown} | sizes | {f"today_{name}": values[name] for name in today}


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves everything as it is. misconception: believes that hashing pixels finds a JPEG again. one_id: names the
    chat, and so takes its second picture for its first. ids: names every picture and lets the app encode it again.
    halves: sends the right file, and gives KV and embeddings half of the budget each. expert: normalises once, before
    the first send, and keeps KV of all chats, beside which an encoder cache has nothing left to do.
    """
    visible = prepared.visible
    blocks = _blocks_of_all_chats(visible)
    budget = visible["cache_budget_mb"] * MB
    sized = {"kv_blocks": blocks, "encoder_cache_embeddings": visible["max_image_tokens"], "salt": "none"}
    halves = {
        "kv_blocks": int(budget / 2 // visible["kv_block_bytes"]),
        "encoder_cache_embeddings": min(int(budget / 2 // visible["embedding_bytes"]), 65_536),
        "salt": "none",
    }
    handed_in: dict[str, dict[str, Any]] = {
        "naive": {},
        "misconception": sized | {"client": "jpeg", "identity": "pixels"},
        "one_id": sized | {"client": "jpeg", "identity": "client_id", "client_id_per": "chat"},
        "ids": sized | {"client": "jpeg", "identity": "client_id", "client_id_per": "picture"},
        "halves": halves | {"client": "normalised", "identity": "bytes"},
        "expert": sized | {"client": "normalised", "identity": "bytes"},
    }
    cold, warm = (
        {"encode_again": not is_warm, "ttft_turn2_us": _priced_us(visible, is_warm=is_warm)}
        for is_warm in (False, True)
    )
    return {
        who: Submission(params=params, prediction=cold if who == "naive" else warm)
        for who, params in handed_in.items()
    }


def _priced_us(visible: dict[str, Any], *, is_warm: bool) -> float:
    """TTFT of turn 2 less upload and preprocessing, cold or warm, from the prices of model and GPU."""
    params = MultimodalParams.model_validate({"model": visible["model"], "gpu": visible["gpu"]})
    prices = Prices(params)
    picture = visible["max_image_tokens"]
    before = visible["system_tokens"] + 2 * picture + visible["question_tokens"] + visible["answer_tokens"]
    if is_warm:
        cached = before // BLOCK_SIZE * BLOCK_SIZE
        return float(prices.pass_over([(cached, before - cached + visible["question_tokens"])]).us)
    encode_us = encode(prices.model.encoder, prices.gpu, [4 * picture] * 2).us
    return float(encode_us + prices.pass_over([(0, before + visible["question_tokens"])]).us)
