"""What a server's own instruments say of a run: no reasons, no settings. Flat rows, as a log has them.

Block and byte counts are of the engine that ran; times are modelled.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from simworkers.multimodal.identity import hash_pixels
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.server import Occupancy, Picture, Server, Turn, fingerprint

Row = Mapping[str, Any]
Table = list[list[Any]]  # the first row names the columns

TURN_HELP = (
    "One row for each turn of each user, in the order in which they were sent. namespace: hash of what separates "
    "prefix caches. cached_tokens: leading prompt tokens whose KV was found. kv_blocks_used, encoder_cache_used and "
    "patch_bytes_used: the most that each cache held up to this turn's first token, kept things included."
)
PICTURE_HELP = (
    "One row for each picture in each of these turns. first_token: where it stands in the prompt. file, pixels and "
    "identifier are hashes: of the file as it came, of what it decodes to, and of what the caches know it by. "
    "preprocessed and encoded: 1 where the stage worked on it in this turn."
)


def describe_run(params: MultimodalParams, server: Server) -> dict[str, Any]:
    """Both tables, the capacities, and whether prefix caching is on."""
    return {
        "kv_blocks_capacity": params.kv_blocks,
        "encoder_cache_capacity": params.encoder_cache_embeddings,
        "patch_bytes_capacity": int(params.preprocess_cache_mb * 1e6),
        "prefix_caching": params.prefix_caching,
        "turns_help": TURN_HELP,
        "turns": as_table([_turn_row(turn, server.occupancy) for turn in server.turns]),
        "pictures_help": PICTURE_HELP,
        "pictures": as_table([_picture_row(turn, one) for turn in server.turns for one in turn.pictures]),
    }


def read_table(table: Table) -> list[dict[str, Any]]:
    """Its rows by name."""
    names, *rows = table
    return [dict(zip(names, row, strict=True)) for row in rows]


def as_table(rows: Sequence[Row]) -> Table:
    """At least one row; all with the same names."""
    return [list(rows[0]), *(list(row.values()) for row in rows)]


def _turn_row(turn: Turn, occupancy: list[Occupancy]) -> Row:
    request = turn.request
    assert request is not None and request.cached_tokens is not None and turn.first_token_us is not None
    seen = [at for at in occupancy if at.time_us <= turn.first_token_us]
    return {
        "user": turn.user,
        "turn": turn.turn,
        "ttft_us": turn.ttft_us,
        "upload_us": turn.upload_us,
        "preprocess_us": turn.preprocess_us,
        "queue_us": turn.queue_us,
        "encode_us": turn.encode_us,
        "prefill_us": turn.prefill_us,
        "namespace": fingerprint((turn.salt or "").encode()),
        "prompt_tokens": request.num_prompt,
        "output_tokens": len(request.logprobs),
        "cached_tokens": request.cached_tokens,
        "preemptions": request.preemptions,
        "kv_blocks_used": max(at.held_blocks + at.cached_blocks for at in seen),
        "encoder_cache_used": max(at.embeddings for at in seen),
        "patch_bytes_used": max(at.patch_bytes for at in seen),
    }


def _picture_row(turn: Turn, picture: Picture) -> Row:
    return {
        "user": turn.user,
        "turn": turn.turn,
        "picture": picture.index,
        "first_token": picture.image.offset,
        "tokens": picture.image.length,
        "file": fingerprint(picture.data),
        "pixels": hash_pixels(picture.pixels)[:8],
        "identifier": picture.image.identifier[:8],
        "preprocessed": int(picture.is_preprocessed),
        "encoded": int(picture.is_encoded),
    }
