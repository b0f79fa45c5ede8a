"""Capacities for the scenes of `diagnose`: of every cache, close to what the chats need, whatever the cause.

A cache that is to be too small holds less than the chats keep; every other one holds what is needed and a margin of
harmless size. A capacity alone then tells nothing: only beside what a turn found in the cache is it too small.
"""

from typing import Any

from simworkers.engine.kv_cache import BlockPool
from simworkers.engine.patches import count_tokens
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.server import Turn, processor_args
from simworkers.multimodal.work import longest_chat, pictures_in_turn
from simworkers.rng import Stream

Values = dict[str, Any]
PATCH_BYTES_OF_A_TOKEN = 4 * 588 * 4  # 2 × 2 patches of 14 × 14 pixels in three colours, float32
KB = 1000
ROOMY: Values = {"kv_blocks": 512, "encoder_cache_embeddings": 2048, "preprocess_cache_mb": 16.0}


def tokens_of_a_picture(values: Values) -> int:
    """All pictures of a scene have one size."""
    args = processor_args(MultimodalParams.model_validate(values | ROOMY), 1)
    return count_tokens(values["image_width_px"], values["image_height_px"], args)


def enough_blocks(values: Values, stream: Stream) -> int:
    """What the chats fill by their end if nothing is kept twice, and an eighth to a half more."""
    shared = values["system_tokens"] if values["salt"] == "none" else 0
    tokens = shared + values["users"] * (longest_chat(values) - shared)
    blocks = int(-(-tokens // BLOCK_SIZE))
    return blocks + blocks // 8 + 1 + stream.integer(blocks * 3 // 8)


def blocks_until(turn: int, values: Values) -> int:
    """What the chats fill until one of them keeps a second copy of all it has, in this turn."""
    before = longest_chat(values | {"turns": turn - 1})
    tokens = values["users"] * before + longest_chat(values | {"turns": turn})
    return int(-(-tokens // BLOCK_SIZE))


def enough_pictures(values: Values, stream: Stream) -> float:
    """In pictures: all of them, and up to three in ten more."""
    count = int(values["users"] * pictures_in_turn(values, values["turns"]))
    return count * (1 + (1 + stream.integer(30)) / 100)


def too_few_pictures(turn: int, values: Values, stream: Stream) -> float:
    """In pictures: all first ones fit, but not all second ones; where there is none in turn 2, not all first ones.

    So few that somebody's picture is gone in the very turn in which the cache becomes full.
    """
    users = values["users"]
    if turn == 2 and values["second_picture_turn"] != turn:
        return float(1 + (users - 1) * (10 + stream.integer(80)) / 100)
    return float(users + (users - 1) * (2 + stream.integer(96)) / 100)


def too_few_blocks(turn: int, values: Values, served: list[Turn]) -> int:
    """The largest pool from which a turn of this number is the first to miss something; 0: none.

    served: all turns of a run in which nothing was evicted, in the order of their first tokens.
    """
    longest = -(-longest_chat(values) // BLOCK_SIZE)
    fitting = (n for n in range(160, longest, -1) if _first_eviction(served, n) == turn)
    return next(fitting, 0)


def just_enough_blocks(values: Values, served: list[Turn]) -> int:
    """The smallest pool from which no turn misses anything, though it may be full. served: as above."""
    longest = -(-longest_chat(values) // BLOCK_SIZE)
    return next(n for n in range(longest, ROOMY["kv_blocks"] + 1) if not _first_eviction(served, n))


def _first_eviction(served: list[Turn], num_blocks: int) -> int:
    """The turn that first misses a block which was there once, if these are served one after the other; 0: none."""
    pool = BlockPool(num_blocks)
    computed: set[bytes] = set()
    for turn in served:
        request = turn.request
        assert request is not None
        full = request.hashes[: (request.num_prompt - 1) // BLOCK_SIZE]
        found = pool.match(full)
        if len(found) < len(full) and full[len(found)] in computed:
            return turn.turn
        pool.hold(found)
        blocks = found + pool.allocate(-(-(len(request.tokens) - 1) // BLOCK_SIZE) - len(found))
        for block, name in zip(blocks[len(found) :], request.hashes[len(found) :], strict=False):
            pool.register(block, name)
        pool.release(blocks)
        computed.update(request.hashes)
    return 0
