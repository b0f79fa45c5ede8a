"""The task `size-encoder-cache`: how many embeddings the encoder cache should hold, where memory has its price.

The text before the picture holds a time of day, so the prefix cache never reaches a picture, and whatever the encoder
cache does not hold is encoded again. HBM is priced by its share of the GPU for as long as the run lasts, and users
think for minutes: keeping what never comes back costs about as much as encoding it again. The log that is shown has
pictures that are dead, since the app changes its format, the server its processor, or a picture comes at the end.
"""

from typing import Any

from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.multimodal.cache_sizing import Access, HbmPrice, cheapest, cost_us, encode_us
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.scenes import QUIET_CLUSTER, one_of, play_metrics
from simworkers.multimodal.stage_cost import encode
from simworkers.multimodal.stages import Prices
from simworkers.multimodal.telemetry import as_table, read_table
from simworkers.rng import Stream

SIZES = ((224, 140), (252, 168), (224, 196), (252, 196))  # px; (width ÷ 28) × (height ÷ 28) tokens
KINDS = ("format", "processor", "late_picture")  # what leaves dead pictures behind
DRAWS = 60
LEAST_DISTANCE = 1.2  # smallest cache ÷ cheapest one
EVERYTHING_REACHES = 0.5  # of the way between them, at most
EXPERT_REACHES = 0.9
US = 1e6
LOG_HELP = (
    "One row for each picture whose embeddings a turn needed, in an earlier window of the same load. picture: what the "
    "caches know it by. encode_us: what encoding it takes."
)


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    return draw_until_it_serves(seed, "size-encoder-cache", lambda stream: _draw(stream, progress), DRAWS)


def _draw(stream: Stream, progress: Progress) -> PreparedInstance | None:
    params = _draw_params(stream)
    seed, observed_seed = stream.integer(SEEDS), stream.integer(SEEDS)
    observed = play_metrics(params, observed_seed, progress)
    visible = _describe(params, observed)
    if not _serves(visible, _log(params, observed)):
        return None
    graded = play_metrics(params, seed, progress)
    expert, price = _expert(visible), _price(visible)
    accesses = _accesses(_log(params, graded))
    smallest, best = (
        cost_us(accesses, capacity, price)
        for capacity in (params.max_image_tokens, cheapest(accesses, params.max_image_tokens, price))
    )
    if smallest - cost_us(accesses, expert, price) < EXPERT_REACHES * (smallest - best):
        return None
    return PreparedInstance(params=params.model_dump(), visible=visible, seed=seed)


def _serves(visible: dict[str, Any], log: list[dict[str, Any]]) -> bool:
    accesses, price = _accesses(log), _price(visible)
    smallest, best, everything = (
        cost_us(accesses, capacity, price)
        for capacity in (visible["max_image_tokens"], _expert(visible), _everything(visible))
    )
    return smallest >= LEAST_DISTANCE * best and smallest - everything <= EVERYTHING_REACHES * (
        smallest - best
    )


def _draw_params(stream: Stream) -> MultimodalParams:
    width, height = one_of(stream, SIZES)
    kind = one_of(stream, KINDS)
    turns = 5 + stream.integer(2)
    pictures = 1 if kind == "late_picture" else 1 + stream.integer(2)
    values = QUIET_CLUSTER | {
        "picture": one_of(stream, ("dashboard", "terminal", "photo")),
        "image_width_px": width,
        "image_height_px": height,
        "max_image_tokens": width * height // 28**2,
        "users": 3 + stream.integer(3 if pictures == 1 else 2),
        "same_picture": pictures == 2 and stream.integer(3) == 0,
        "turns": turns,
        "second_picture_turn": turns if kind == "late_picture" else (0, 1)[pictures - 1],
        "system_tokens": 16,
        "question_tokens": 12,
        "answer_tokens": 4,
        "changing_text": True,
        "client": "png_then_jpeg" if kind == "format" else "same_bytes",
        "processor_change_turn": 3 if kind == "processor" else 0,
        "gpu": one_of(stream, ("h100", "h200", "a100")),
    }
    least = 55 if kind == "late_picture" else 35
    return _with_think_time(MultimodalParams.model_validate(values), least, stream)


def _with_think_time(params: MultimodalParams, least_percent: int, stream: Stream) -> MultimodalParams:
    """Up to two thirds of what the hits of a picture save are spent on its place in HBM."""
    prices = Prices(params)
    hits = params.turns - 2
    encode_us = encode(prices.model.encoder, prices.gpu, [4 * params.max_image_tokens]).us
    share = params.max_image_tokens * prices.embedding_bytes / prices.gpu.hbm_bytes
    part = (least_percent + stream.integer(66 - least_percent)) / 100
    think_s = part * hits * encode_us / US / share / (params.turns - 1)
    return MultimodalParams.model_validate(params.model_dump() | {"think_s": min(round(think_s, 1), 600.0)})


def _log(params: MultimodalParams, metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Pictures whose embeddings a turn needed, in the order in which turns were served."""
    prices = Prices(params)
    rows = sorted(metrics["turns"], key=lambda row: row["sent_us"] + row["ttft_us"])
    return [
        {
            "time_s": round(row["sent_us"] / US, 1),
            "user": row["user"],
            "turn": row["turn"],
            "picture": picture["identifier"],
            "embeddings": picture["tokens"],
            "encode_us": encode(prices.model.encoder, prices.gpu, [4 * picture["tokens"]]).us,
        }
        for row in rows
        for picture in row["pictures"]
        if picture["encode"] != "not_needed"
    ]


def _describe(params: MultimodalParams, observed: dict[str, Any]) -> dict[str, Any]:
    prices = Prices(params)
    ends_us = [row["sent_us"] + row["ttft_us"] + row["decode_us"] for row in observed["turns"]]
    return {
        "users": params.users,
        "turns": params.turns,
        "think_s": params.think_s,
        "max_image_tokens": params.max_image_tokens,
        "model": params.model,
        "gpu": params.gpu,
        "hbm_bytes": prices.gpu.hbm_bytes,
        "embedding_bytes": prices.embedding_bytes,
        "window_us": max(ends_us) - min(row["sent_us"] for row in observed["turns"]),
        "log_help": LOG_HELP,
        "log": as_table(_log(params, observed)),
    }


def _accesses(log: list[dict[str, Any]]) -> list[Access]:
    return [Access((row["picture"], row["embeddings"]), row["encode_us"]) for row in log]


def _price(visible: dict[str, Any]) -> HbmPrice:
    return HbmPrice(visible["embedding_bytes"], visible["hbm_bytes"], visible["window_us"])


def _expert(visible: dict[str, Any]) -> int:
    return cheapest(_accesses(read_table(visible["log"])), visible["max_image_tokens"], _price(visible))


def _everything(visible: dict[str, Any]) -> int:
    return sum(length for _, length in {access.key for access in _accesses(read_table(visible["log"]))})


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves the cache as it is. smallest: believes that memory is never worth it. misconception: keeps everything
    that was ever seen. expert: prices every capacity at which the log finds something more.
    """
    visible = prepared.visible
    capacities = {
        "naive": MultimodalParams.model_validate(prepared.params).encoder_cache_embeddings,
        "smallest": visible["max_image_tokens"],
        "misconception": _everything(visible),
        "expert": _expert(visible),
    }
    told = {
        who: Submission(
            params={"encoder_cache_embeddings": capacity},
            prediction={"images_encoded": _encoded_in_log(visible, capacity)},
        )
        for who, capacity in capacities.items()
    }
    return told | {"naive": told["naive"].model_copy(update={"params": {}})}


def _encoded_in_log(visible: dict[str, Any], capacity: int) -> int:
    """Pictures of the log that a cache of this size would have had encoded."""
    return encode_us(
        [Access(access.key, encode_us=1) for access in _accesses(read_table(visible["log"]))], capacity
    )
