"""The task `predict-turn-2`: say what the second turn of a chat finds in three caches, and what it computes again.

Nothing is set and nothing handed in: the prediction itself is judged. Each instance is one plan, a kind of scene, with
numbers and harmless features drawn around it; those in which all is found, or nothing, are few. An instance serves if
the rules that the lesson teaches, applied to what is shown, give what the engine really did.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from simworkers.engine.kv_cache import BlockPool
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.multimodal.clients import changed_share
from simworkers.multimodal.conversation import CLOCK_TOKENS, Workload
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.scenes import QUIET_CLUSTER, one_of
from simworkers.multimodal.server import Turn
from simworkers.multimodal.simulate import play
from simworkers.rng import Stream
from simworkers.threads import torch_threads

DRAWS = 200
LEAST_GAP_US = 450_000  # between first questions: longer than a turn takes, so that users follow one another
KEEPS_FILE = ("same_bytes", "normalised")
OTHER_PIXELS = ("jpeg", "png_then_jpeg", "resize")
PLANS = (
    "all_found",
    "resave_by_bytes",
    "resave_by_bytes",
    "resave_by_pixels",
    "resave_by_id",
    "other_pixels",
    "other_pixels",
    "other_pixels_by_id",
    "salt_per_turn",
    "time_before_picture",
    "time_before_picture",
    "other_processor",
    "small_preprocessing_cache",
    "small_encoder_cache",
    "small_kv_pool",
    "small_kv_pool",
    "no_prefix_caching",
)
SHOWN = (
    "users",
    "same_picture",
    "client",
    "identity",
    "salt",
    "changing_text",
    "second_picture_turn",
    "processor_change_turn",
    "system_tokens",
    "question_tokens",
    "answer_tokens",
    "prefix_caching",
    "kv_blocks",
    "encoder_caching",
    "encoder_cache_embeddings",
    "preprocess_cache_mb",
)


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    return draw_until_it_serves(seed, "predict-turn-2", lambda stream: _draw(stream, progress), DRAWS)


def _draw(stream: Stream, progress: Progress) -> PreparedInstance | None:
    plan = one_of(stream, PLANS)
    params = MultimodalParams.model_validate(_fit_caches(stream, plan, _draw_scene(stream, plan)))
    seed = stream.integer(SEEDS)
    if not _follow_one_another(params, seed):
        return None
    with torch_threads(1):
        server, _ = play(params, seed, progress)
    turns = {turn.turn: turn for turn in server.turns if turn.user == 0}
    visible = _describe(params, turns)
    if params.client in OTHER_PIXELS and not _changes(turns):
        return None
    if foresee(visible) != _what_happened(turns[2]):
        return None
    return PreparedInstance(params=params.model_dump(), visible=visible, seed=seed)


def _draw_scene(stream: Stream, plan: str) -> dict[str, Any]:
    """Chat, client and identity. Every plan draws the same numbers, so that plans can change in one place."""
    identity = one_of(stream, ("bytes", "pixels", "client_id"))
    other = one_of(stream, OTHER_PIXELS)
    by_content = one_of(stream, ("bytes", "pixels"))
    values: dict[str, Any] = QUIET_CLUSTER | {
        "picture": one_of(stream, ("terminal", "dashboard", "photo")),
        "image_width_px": 224 + 28 * stream.integer(9),
        "image_height_px": 168 + 28 * stream.integer(7),
        "max_image_tokens": 48 + 8 * stream.integer(8),
        "users": 2 + stream.integer(2),
        "turns": 2,
        "second_picture_turn": one_of(stream, (0, 0, 2)),
        "system_tokens": 20 + stream.integer(150),
        "question_tokens": 8 + stream.integer(40),
        "answer_tokens": 4 + stream.integer(12),
        "think_s": 60.0,
        "jpeg_quality": 60 + stream.integer(30),
        "client": one_of(stream, KEEPS_FILE),
        "identity": identity,
        "salt": one_of(stream, ("none", "user")),
    }
    match plan:
        case "resave_by_bytes" | "resave_by_pixels" | "resave_by_id":
            of = {"resave_by_bytes": "bytes", "resave_by_pixels": "pixels", "resave_by_id": "client_id"}
            values |= {"client": "lossless_resave", "identity": of[plan]}
        case "other_pixels":
            values |= {"client": other, "identity": by_content}
        case "other_pixels_by_id":
            # Not scaled: an id that stands for pictures of two sizes is another lesson.
            values |= {"client": OTHER_PIXELS[stream.integer(2)], "identity": "client_id"}
        case "salt_per_turn":
            values["salt"] = "turn"
        case "time_before_picture":
            values["changing_text"] = True
        case "other_processor":
            values["processor_change_turn"] = 2
        case "no_prefix_caching":
            values["prefix_caching"] = False
    return values


def _fit_caches(stream: Stream, plan: str, values: dict[str, Any]) -> dict[str, Any]:
    """Sizes in which everything fits, or that are too small for the pictures of all users."""
    users, most = values["users"], values["max_image_tokens"]
    small_encoder = plan == "small_encoder_cache" or stream.integer(2) == 0
    pictures = 1 + stream.integer(users - 1) if small_encoder else 2 * users
    small_patches = plan == "small_preprocessing_cache" or stream.integer(4) == 0
    patch_mb = most * 4 * 588 * 4 / 1e6
    fit = {
        "encoder_cache_embeddings": most * pictures + stream.integer(most // 4),
        "preprocess_cache_mb": round(patch_mb * (1.1 if small_patches else 3 * users), 2),
        "encoder_budget": max(most, 64),
    }
    if plan == "small_kv_pool":
        turn_one = values["system_tokens"] + most + values["question_tokens"] + values["answer_tokens"]
        longest = turn_one + most * bool(values["second_picture_turn"])
        longest += values["question_tokens"] + values["answer_tokens"]
        least = -(-longest // BLOCK_SIZE)
        need = users * -(-turn_one // BLOCK_SIZE)
        fit["kv_blocks"] = least + stream.integer(max(need - least, 1))
    return values | fit


def _follow_one_another(params: MultimodalParams, seed: int) -> bool:
    """User 0 asks first, each other user once the one before has got an answer."""
    workload = Workload(params.model_copy(update={"users": 1, "image_width_px": 64}), seed, lambda: None)
    arrivals = [workload.first_arrival_us(user) for user in range(params.users)]
    return all(later - earlier >= LEAST_GAP_US for earlier, later in pairwise(arrivals))


def _changes(turns: Mapping[int, Turn]) -> bool:
    """Whether the client's second file really decodes to other pixels than its first."""
    return _changed_percent(turns) != 0


def _changed_percent(turns: Mapping[int, Turn]) -> float | str:
    first, second = (turns[turn].pictures[0].pixels for turn in (1, 2))
    if first.shape != second.shape:
        return "another size"
    return round(100 * changed_share(first, second), 2)


def _describe(params: MultimodalParams, turns: Mapping[int, Turn]) -> dict[str, Any]:
    """The whole scene; of what happened only the picture's tokens and how far the client's two files differ."""
    values = params.model_dump()
    picture = turns[1].pictures[0]
    return {
        "block_size_tokens": BLOCK_SIZE,
        **{name: values[name] for name in SHOWN},
        "picture_tokens_turn_1": picture.image.length,
        "picture_tokens_turn_2": turns[2].pictures[0].image.length,
        "values_changed_percent": _changed_percent(turns),
        "patch_bytes_per_picture": picture.image.patches.nbytes,
        "order": "User 0 asks first. The others follow one after the other, each on an idle server, and all have "
        "their first answers before user 0 asks again, who is again the first.",
    }


def foresee(visible: Mapping[str, Any]) -> dict[str, Any]:
    """The prediction that the rules of the lesson make of a scene as it is shown."""
    file_stays = visible["client"] in KEEPS_FILE
    processor_stays = visible["processor_change_turn"] != 2
    pixels_stay = file_stays or visible["client"] == "lossless_resave"
    same_image = {"bytes": file_stays, "pixels": pixels_stay, "client_id": True}[visible["identity"]]
    same_image = same_image and processor_stays
    found = _found_tokens(visible, same_image)
    prompt = _prompt_tokens(visible)
    pictures = 1 if visible["same_picture"] else visible["users"]
    keeps_patches = pictures * visible["patch_bytes_per_picture"] <= visible["preprocess_cache_mb"] * 1e6
    keeps_embeddings = visible["encoder_caching"] and (
        pictures * visible["picture_tokens_turn_1"] <= visible["encoder_cache_embeddings"]
    )
    is_covered = found >= visible["system_tokens"] + visible["picture_tokens_turn_2"]
    return {
        "preprocess_again": not (file_stays and processor_stays and keeps_patches),
        "encode_again": not (is_covered or (same_image and keeps_embeddings)),
        "cached_tokens": found,
        "new_tokens": prompt - found,
    }


def _prompt_tokens(visible: Mapping[str, Any]) -> int:
    """Of turn 2."""
    second = visible["picture_tokens_turn_1"] if visible["second_picture_turn"] == 2 else 0
    texts = visible["system_tokens"] + 2 * visible["question_tokens"] + visible["answer_tokens"]
    return int(texts + visible["picture_tokens_turn_2"] + second)


def _found_tokens(visible: Mapping[str, Any], same_image: bool) -> int:
    """Full blocks before the first thing that changed, as far as the pool still has them."""
    if not visible["prefix_caching"] or visible["salt"] == "turn":
        return 0
    if visible["changing_text"]:
        same = visible["system_tokens"] - CLOCK_TOKENS
    elif not same_image:
        same = visible["system_tokens"]
    else:
        same = _kept_tokens(visible)  # the last token of the answer has no KV yet
    blocks = min(same, _prompt_tokens(visible) - 1) // BLOCK_SIZE
    return int(min(blocks, _surviving_blocks(visible)) * BLOCK_SIZE)


def _kept_tokens(visible: Mapping[str, Any]) -> int:
    """Tokens of a first turn that have KV when it ends."""
    texts = visible["system_tokens"] + visible["question_tokens"] + visible["answer_tokens"]
    return int(texts + visible["picture_tokens_turn_1"] - 1)


def _surviving_blocks(visible: Mapping[str, Any]) -> int:
    """Leading blocks of user 0's first turn that are still there when all others have had theirs."""
    pool = BlockPool(visible["kv_blocks"])
    kept = _kept_tokens(visible)
    shared = visible["system_tokens"] // BLOCK_SIZE if visible["salt"] == "none" else 0

    def names(user: int) -> list[bytes]:
        return [f"{0 if index < shared else user} {index}".encode() for index in range(kept // BLOCK_SIZE)]

    for user in range(visible["users"]):
        matched = pool.match(names(user)[:shared])
        pool.hold(matched)
        blocks = matched + pool.allocate(-(-kept // BLOCK_SIZE) - len(matched))
        for block, name in zip(blocks[len(matched) :], names(user)[len(matched) :], strict=False):
            pool.register(block, name)
        pool.release(blocks)
    return len(pool.match(names(0)))


def _what_happened(turn: Turn) -> dict[str, Any]:
    assert turn.request is not None and turn.request.cached_tokens is not None
    picture = turn.pictures[0]
    return {
        "preprocess_again": picture.is_preprocessed,
        "encode_again": picture.is_encoded,
        "cached_tokens": turn.request.cached_tokens,
        "new_tokens": len(turn.prompt) - turn.request.cached_tokens,
    }


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """Each from the visible part alone.

    naive: believes that a server remembers nothing. misconception: believes that the same picture to the eye is the
    same to every cache, and that all that was sent before is found, to the last token. expert: follows the picture
    through the three caches and looks for the first block that differs.
    """
    visible = prepared.visible
    prompt = _prompt_tokens(visible)
    before = prompt - visible["question_tokens"]
    guesses = {
        "naive": {
            "preprocess_again": True,
            "encode_again": True,
            "cached_tokens": 0,
            "new_tokens": prompt,
        },
        "misconception": {
            "preprocess_again": False,
            "encode_again": False,
            "cached_tokens": before,
            "new_tokens": prompt - before,
        },
        "expert": foresee(visible),
    }
    return {who: Submission(params={}, prediction=guess) for who, guess in guesses.items()}
