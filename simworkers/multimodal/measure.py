"""From what a server did to the metrics of a report."""

from itertools import pairwise
from statistics import fmean
from typing import Any

from simworkers.engine.patches import ProcessorArgs, count_tokens
from simworkers.multimodal.audio import AUDIO_ENCODERS, encode_streamed, encode_whole
from simworkers.multimodal.checks import Checks
from simworkers.multimodal.clients import Pixels, changed_share
from simworkers.multimodal.cluster import ClusterResults, cluster_rows, cluster_scalars
from simworkers.multimodal.cluster_metrics import nearest_rank
from simworkers.multimodal.diagnosis import first_fault
from simworkers.multimodal.encoder_costs import measure_encoder_costs
from simworkers.multimodal.identity import hash_pixels
from simworkers.multimodal.metrics import (
    MultimodalMetrics,
    OccupancyRow,
    PictureRow,
    ResolutionRow,
    TurnRow,
)
from simworkers.multimodal.misses import History, reusable_tokens
from simworkers.multimodal.output_stages import DIFFUSION_MODELS, paint, speak
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.server import Picture, Server, Turn, fingerprint, processor_args
from simworkers.multimodal.stages import Prices

MOST_OCCUPANCY_ROWS = 240  # beside those before a pause
PAUSE_US = 200_000
WIDTHS_PX = tuple(range(80, 1641, 40))
SPEECH_CODEC_TOKENS = 500  # ten seconds


def measure(
    params: MultimodalParams, server: Server, checks: Checks, cluster: ClusterResults
) -> MultimodalMetrics:
    prices = Prices(params)
    rows = turn_rows(params, server)
    scalars: dict[str, Any] = (
        _times(params, server, rows, prices)
        | _counts(server, rows)
        | _second_turn(rows)
        | _fault(rows)
        | _memory(params, server, prices)
        | _shares(server, rows)
        | cluster_scalars(params, cluster)
        | measure_encoder_costs(server, rows, prices)
        | _other_stages(params, prices)
    )
    return MultimodalMetrics.model_validate(
        scalars
        | {
            "wrong_pictures": checks.wrong_pictures,
            "files_as_attached": _files_as_attached(server),
            "turns": rows,
            "occupancy": _occupancy(server, prices),
            "resolutions": [_resolution(params, width) for width in WIDTHS_PX],
            "cluster": cluster_rows(cluster),
        }
    )


def turn_rows(params: MultimodalParams, server: Server) -> list[TurnRow]:
    """In the order in which they were sent; reasons follow the order in which they were served."""
    history = History(params)
    previous: dict[int, Turn] = {}
    rows = {}
    for turn in sorted(server.turns, key=lambda turn: turn.first_token_us or 0):
        rows[turn.user, turn.turn] = _turn_row(
            turn, previous.get(turn.user), history, server.workload.originals
        )
        history.remember(turn)
        previous[turn.user] = turn
    return [rows[turn.user, turn.turn] for turn in server.turns]


def _turn_row(
    turn: Turn, before: Turn | None, history: History, originals: dict[tuple[int, int], Pixels]
) -> TurnRow:
    request = turn.request
    assert request is not None and request.cached_tokens is not None and turn.done_us is not None
    assert turn.first_token_us is not None
    old_pictures = {picture.index: picture for picture in before.pictures} if before else {}
    decode_us = turn.done_us - turn.first_token_us
    return TurnRow(
        user=turn.user,
        turn=turn.turn,
        sent_us=turn.sent_us,
        ttft_us=turn.ttft_us,
        upload_us=turn.upload_us,
        preprocess_us=turn.preprocess_us,
        queue_us=turn.queue_us,
        encode_us=turn.encode_us,
        prefill_us=turn.prefill_us,
        decode_us=decode_us,
        tpot_us=decode_us / (len(request.logprobs) - 1),
        prompt_tokens=request.num_prompt,
        image_tokens=sum(picture.image.length for picture in turn.pictures),
        cached_tokens=request.cached_tokens,
        reusable_tokens=max(reusable_tokens(turn, before), request.cached_tokens),
        endless_tokens=history.endless_tokens(turn),
        prefix=history.prefix(turn, before),
        preemptions=request.preemptions,
        pictures=[
            _picture_row(
                picture,
                old_pictures.get(picture.index),
                history,
                request.cached_tokens,
                originals[turn.user, picture.index],
            )
            for picture in turn.pictures
        ],
    )


def _picture_row(
    picture: Picture, old: Picture | None, history: History, cached_tokens: int, original: Pixels
) -> PictureRow:
    reference = old.pixels if old else original
    same_size = reference.shape == picture.pixels.shape
    return PictureRow(
        picture=picture.index,
        file=fingerprint(picture.data),
        pixels=hash_pixels(picture.pixels)[:8],
        identifier=picture.image.identifier[:8],
        file_bytes=len(picture.data),
        tokens=picture.image.length,
        changed_share=changed_share(reference, picture.pixels) if same_size else None,
        preprocess=history.preprocess(picture, old),
        encode=history.encode(picture, old, is_covered=cached_tokens >= picture.image.stop),
    )


def _times(params: MultimodalParams, server: Server, rows: list[TurnRow], prices: Prices) -> dict[str, float]:
    second = [row for row in rows if row.turn == min(2, params.turns)]
    later = [row for row in rows if row.turn > 1] or second
    turns = {(turn.user, turn.turn): turn for turn in server.turns}

    def alone(chosen: list[TurnRow], *, warm: bool) -> float:
        return fmean(_alone_us(turns[row.user, row.turn], row, prices, warm=warm) for row in chosen)

    return {
        "ttft_turn1_us": fmean(row.ttft_us for row in rows if row.turn == 1),
        "ttft_turn2_us": fmean(row.ttft_us for row in second),
        "ttft_later_us": fmean(row.ttft_us for row in later),
        "ttft_p99_us": nearest_rank(sorted(row.ttft_us for row in rows), 99),
        "server_turn2_us": fmean(row.ttft_us - row.upload_us for row in second),
        "server_turn2_cold_us": alone(second, warm=False),
        "server_turn2_warm_us": alone(second, warm=True),
        "server_later_us": fmean(row.ttft_us - row.upload_us for row in later),
        "server_later_cold_us": alone(later, warm=False),
        "server_later_warm_us": alone(later, warm=True),
        "tpot_us": fmean(row.tpot_us for row in rows),
    }


def _alone_us(turn: Turn, row: TurnRow, prices: Prices, *, warm: bool) -> int:
    """TTFT less the upload of a turn that meets nobody; warm: it finds whatever the turn before computed."""
    cached = row.reusable_tokens if warm else 0
    fresh = [picture for picture in turn.pictures if not warm or picture.image.stop > cached]
    seen = prices.pass_over([(cached, row.prompt_tokens - cached)]).us
    preprocess_us = max(
        (prices.preprocess(picture.pixels.shape[0] * picture.pixels.shape[1]).us for picture in fresh),
        default=0,
    )
    return preprocess_us + prices.encode([picture.image for picture in fresh]).us + seen


def _counts(server: Server, rows: list[TurnRow]) -> dict[str, float]:
    pictures = [picture for row in rows for picture in row.pictures]
    needed = [picture for picture in pictures if picture.encode != "not_needed"]
    prompt = sum(row.prompt_tokens for row in rows)
    cached, reusable = sum(row.cached_tokens for row in rows), sum(row.reusable_tokens for row in rows)
    encoded = [picture for picture in needed if picture.encode != "hit"]
    return {
        "image_tokens": next(row for row in rows if row.user == 0).pictures[0].tokens,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "reusable_tokens": reusable,
        "computed_tokens": server.engine.statistics.computed_tokens,
        "hit_rate": cached / prompt,
        "hit_rate_ceiling": sum(row.endless_tokens for row in rows) / prompt,
        "repeatable_rate": reusable / prompt,
        "images": len(pictures),
        "images_preprocessed": sum(picture.preprocess != "hit" for picture in pictures),
        "images_encoded": len(encoded),
        "encoder_hit_rate": 1 - len(encoded) / len(needed) if needed else 1.0,
        "encoded_embeddings": sum(picture.tokens for picture in encoded),
        "preemptions": server.preemptions,
    }


def _second_turn(rows: list[TurnRow]) -> dict[str, int]:
    last = max(row.turn for row in rows if row.user == 0 and row.turn <= 2)
    row = next(row for row in rows if row.user == 0 and row.turn == last)
    picture = row.pictures[0]
    return {
        "preprocess_again_turn2": int(picture.preprocess != "hit"),
        "encode_again_turn2": int(picture.encode not in ("hit", "not_needed")),
        "cached_tokens_turn2": row.cached_tokens,
        "new_tokens_turn2": row.prompt_tokens - row.cached_tokens,
    }


def _files_as_attached(server: Server) -> int:
    chats = server.workload.chats
    return sum(
        picture.data == chats[turn.user].clients[picture.index].file
        for turn in server.turns
        for picture in turn.pictures
    )


def _fault(rows: list[TurnRow]) -> dict[str, int]:
    fault = first_fault(rows)
    return {"fault_cause": fault.cause.value, "fault_turn": fault.turn, "fault_sign": fault.sign.value}


def _memory(params: MultimodalParams, server: Server, prices: Prices) -> dict[str, int]:
    config = server.engine.config
    used = prices.cache_bytes(config)
    budget = round(params.cache_budget_mb * 1e6)
    encoder_bytes = config.encoder_cache_embeddings * prices.embedding_bytes
    return {
        "kv_bytes": used - encoder_bytes,
        "encoder_cache_bytes": encoder_bytes,
        "cache_bytes": used,
        "cache_budget_bytes": budget,
        "within_budget": int(used <= budget),
        "kv_peak_bytes": server.engine.pool.peak_held * prices.kv_block_bytes,
        "encoder_peak_bytes": server.engine.encoder_cache.peak * prices.embedding_bytes,
    }


def _shares(server: Server, rows: list[TurnRow]) -> dict[str, float]:
    """Of the time from send to last token, summed over turns."""
    whole = sum(row.ttft_us + row.decode_us for row in rows)
    turns = server.turns

    spent = {
        "share_links": sum(turn.upload_us for turn in turns),
        "share_host": sum(turn.preprocess_us for turn in turns),
        "share_kv_capacity": sum(turn.blocked_us for turn in turns),
        "share_hbm_bandwidth": sum(turn.hbm_us for turn in turns),
        "share_flops": sum(turn.flops_us for turn in turns),
    }
    # What is left is time in which the turn was under way and others were served.
    return {name: us / whole for name, us in (spent | {"share_queue": whole - sum(spent.values())}).items()}


def _other_stages(params: MultimodalParams, prices: Prices) -> dict[str, Any]:
    sound_ms = params.audio_s * 1000
    encoder = AUDIO_ENCODERS["qwen2-audio"]
    whole = encode_whole(encoder, prices.gpu, sound_ms)
    streamed = encode_streamed(encoder, prices.gpu, sound_ms)
    speech = speak(prices.gpu, SPEECH_CODEC_TOKENS)
    diffusion = DIFFUSION_MODELS["flux.1-dev"]
    image = paint(diffusion, prices.gpu, width_px=1024, height_px=1024, steps=params.diffusion_steps)
    return {
        "audio_tokens": whole.tokens,
        "audio_encode_us": float(whole.encode_us),
        "first_audio_us": float(speech.first_audio_us),
        "real_time_factor": speech.real_time_factor,
        "seconds_per_image": image.seconds_per_image,
        "other_stages": {
            "audio_after_speech_whole_us": float(whole.after_speech_us),
            "audio_after_speech_streamed_us": float(streamed.after_speech_us),
            "audio_encode_streamed_us": float(streamed.encode_us),
            "first_codec_token_us": float(speech.first_codec_token_us),
            "last_audio_us": float(speech.last_audio_us),
            "diffusion_step_us": float(image.step_us),
        },
    }


def _occupancy(server: Server, prices: Prices) -> list[OccupancyRow]:
    """Thinned evenly, but with the last step before every pause: what it shows lasts until the next one."""
    found = server.occupancy
    stride = -(-len(found) // MOST_OCCUPANCY_ROWS)
    before_pause = [later.time_us - at.time_us > PAUSE_US for at, later in pairwise(found)]
    kept = [at for n, at in enumerate(found) if n % stride == 0 or (n == len(found) - 1 or before_pause[n])]
    return [
        OccupancyRow(
            time_us=at.time_us,
            kv_held_bytes=at.held_blocks * prices.kv_block_bytes,
            kv_cached_bytes=at.cached_blocks * prices.kv_block_bytes,
            encoder_bytes=at.embeddings * prices.embedding_bytes,
        )
        for at in kept
    ]


def _resolution(params: MultimodalParams, width: int) -> ResolutionRow:
    height = width * 5 // 8
    native = ProcessorArgs(max_tokens=params.max_image_tokens)
    tiled = processor_args(params.model_copy(update={"scheme": "tiles", "processor_change_turn": 0}), 1)
    return ResolutionRow(
        width_px=width,
        height_px=height,
        native_tokens=count_tokens(width, height, native),
        tiled_tokens=count_tokens(width, height, tiled),
    )
