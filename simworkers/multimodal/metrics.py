"""What a run of the multimodal lab reports. Pydantic alone. Definitions follow the project's METRICS page.

Counts come from the engine that really ran; times are modelled for the accounted model and GPU.
"""

from typing import Literal

from simworkers.fields import Row, metric

# Why a stage worked again, or did not.
Reason = Literal[
    "hit",  # found in its cache
    "not_needed",  # an earlier stage's hit made it needless
    "first",  # never seen before
    "caching_off",
    "evicted",  # it was there, and the cache was too small to keep it
    "bytes_changed",  # another file, although its pixels are the same
    "pixels_changed",
    "processor_changed",  # the same file, other processor arguments
    "text_changed",  # tokens before the first miss differ from the turn before
    "salt_changed",
    "id_changed",  # the client's id is another one
]


class PictureRow(Row):
    """One picture in one turn."""

    picture: int = metric("index", "Which picture of the chat, from 0.")
    file: str = metric("", "Hash of the file as it was sent, 8 hex digits.")
    pixels: str = metric("", "Hash of its pixels with their shape, 8 hex digits.")
    identifier: str = metric("", "What the caches take it for, 8 hex digits.")
    file_bytes: int = metric("bytes", "Size of the file.")
    tokens: int = metric("tokens", "Embeddings that it becomes.")
    changed_share: float | None = metric(
        "fraction",
        "Values of its pixels that differ from the turn before, in turn 1 from the user's file; null "
        "where the size differs.",
    )
    preprocess: Reason = metric("", "Why it was preprocessed, or hit.")
    encode: Reason = metric("", "Why it was encoded, hit, or not_needed where the prefix cache covered it.")


class TurnRow(Row):
    """One turn of one user. TTFT = upload + preprocess + queue + encode + prefill."""

    user: int = metric("index", "From 0.")
    turn: int = metric("turn", "From 1.")
    sent_us: int = metric("µs", "When the client sent it, on the modelled clock.")
    ttft_us: int = metric("µs", "Client send to first output token.")
    upload_us: int = metric("µs", "Files over the client's link.")
    preprocess_us: int = metric("µs", "Decoding, resizing and cutting into patches, outside the engine loop.")
    queue_us: int = metric("µs", "Waiting for the engine: running steps, images of others, KV blocks.")
    encode_us: int = metric("µs", "Its own images through the encoder.")
    prefill_us: int = metric("µs", "Steps that computed its prompt.")
    decode_us: int = metric("µs", "From the first to the last output token.")
    tpot_us: float = metric("µs", "(last − first output) ÷ (outputs − 1).")
    prompt_tokens: int = metric("tokens", "Tokens sent, placeholders included.")
    image_tokens: int = metric("tokens", "Placeholders among them.")
    cached_tokens: int = metric("tokens", "Leading tokens whose KV was found, at the first admission.")
    reusable_tokens: int = metric(
        "tokens",
        "What could have been found had the same pictures and texts always looked the same: full blocks of the turn "
        "before that this turn repeats, or what was found where that is more.",
    )
    endless_tokens: int = metric("tokens", "What a prefix cache without limit would have found.")
    prefix: Reason = metric("", "Why KV was missing that the turn before had; hit where none was.")
    preemptions: int = metric("count", "How often it had to start over for lack of KV blocks.")
    pictures: list[PictureRow] = metric("", "In the order of the chat.")


class OccupancyRow(Row):
    """Fill of the caches at one moment; bytes of the accounted model."""

    time_us: int = metric("µs", "Modelled clock.")
    kv_held_bytes: int = metric("bytes", "KV blocks that requests hold.")
    kv_cached_bytes: int = metric("bytes", "KV blocks that nobody holds and that can be found again.")
    encoder_bytes: int = metric("bytes", "Embeddings in the encoder cache.")


class ResolutionRow(Row):
    """Tokens of one picture by its size, for the processor of this run and for the other scheme."""

    width_px: int = metric("px", "Width.")
    height_px: int = metric("px", "Height, five eighths of the width.")
    native_tokens: int = metric("tokens", "At native resolution.")
    tiled_tokens: int = metric("tokens", "In tiles with a thumbnail.")


class ClusterRow(Row):
    """The cluster at one share of requests with pictures: encoder workers apart, and everything on every GPU."""

    image_percent: int = metric("%", "Requests with pictures.")
    colocated_tokens_per_gpu_s: float = metric("tokens/s", "Output tokens per GPU-second, colocated.")
    split_tokens_per_gpu_s: float = metric("tokens/s", "The same with encoder workers apart.")
    colocated_ttft_us: float = metric("µs", "Mean TTFT, colocated.")
    split_ttft_us: float = metric("µs", "The same with encoder workers apart.")


class MultimodalMetrics(Row):
    """Scalars first, then the rows that the figures draw."""

    ttft_turn1_us: float = metric("µs", "TTFT of turn 1, mean over users.")
    ttft_turn2_us: float = metric("µs", "TTFT of turn 2, mean over users; of turn 1 where there is one turn.")
    ttft_later_us: float = metric("µs", "TTFT of turns 2 and later, mean; of turn 1 where there is one turn.")
    ttft_p99_us: float = metric("µs", "99th percentile of TTFT over all turns, nearest rank.")
    server_turn2_us: float = metric(
        "µs", "TTFT of turn 2 less the upload, mean over users.", label="Server time of turn 2"
    )
    server_turn2_cold_us: float = metric(
        "µs",
        "The same if nothing were cached and the turn were alone: everything preprocessed, encoded, prefilled.",
        label="Server time of turn 2, nothing cached",
    )
    server_turn2_warm_us: float = metric(
        "µs",
        "The same if everything that turn 1 computed were found and the turn were alone.",
        label="Server time of turn 2, all found",
    )
    server_later_us: float = metric(
        "µs",
        "TTFT of turns 2 and later less the upload, mean over users and turns.",
        label="Server time of later turns",
    )
    server_later_cold_us: float = metric(
        "µs",
        "The same if nothing were cached and each turn were alone.",
        label="Server time of later turns, nothing cached",
    )
    server_later_warm_us: float = metric(
        "µs",
        "The same if everything of the turns before were found, each alone.",
        label="Server time of later turns, all found",
    )
    tpot_us: float = metric("µs", "Mean over turns of (last − first output) ÷ (outputs − 1).")
    image_tokens: int = metric("tokens", "Tokens of the first picture in turn 1 of user 0.")
    prompt_tokens: int = metric("tokens", "Of all turns.")
    cached_tokens: int = metric("tokens", "Found in the prefix cache, counted once a turn.")
    reusable_tokens: int = metric(
        "tokens", "What could have been found had pictures and texts always looked the same; see the turns."
    )
    computed_tokens: int = metric("tokens", "Rows that the engine computed, recomputed ones included.")
    hit_rate: float = metric("fraction", "cached_tokens ÷ prompt_tokens.")
    hit_rate_ceiling: float = metric(
        "fraction",
        "The same with a prefix cache without limit: leading blocks that any turn before had computed.",
    )
    repeatable_rate: float = metric("fraction", "reusable_tokens ÷ prompt_tokens.")
    images: int = metric("count", "Pictures of all turns.")
    images_preprocessed: int = metric("count", "Of them, those that were decoded, resized and cut.")
    images_encoded: int = metric("count", "Of them, those that went through the encoder.")
    encoder_hit_rate: float = metric(
        "fraction", "Pictures found in the encoder cache ÷ pictures that needed embeddings."
    )
    encoded_embeddings: int = metric("embeddings", "Through the encoder.")
    preprocess_again_turn2: int = metric(
        "0 or 1",
        "Whether user 0's first picture was preprocessed in turn 2.",
        label="Preprocessed again in turn 2",
    )
    encode_again_turn2: int = metric(
        "0 or 1", "Whether user 0's first picture was encoded in turn 2.", label="Encoded again in turn 2"
    )
    cached_tokens_turn2: int = metric("tokens", "Found for turn 2 of user 0.")
    new_tokens_turn2: int = metric("tokens", "Prompt tokens of turn 2 of user 0 that had to be computed.")
    fault_cause: int = metric(
        "",
        "What first made a turn do work again that had been done, or took a picture for another one. 0: nothing; "
        "1: other pixels; 2: another file with the same pixels; 3: other processor arguments; 4: another salt; "
        "5: other text before the picture; 6: two pictures under one identifier; 7: KV evicted; 8: embeddings evicted; "
        "9: patches evicted.",
    )
    fault_turn: int = metric("turn", "The first turn in which it shows, whoever's; 0: never.", zero="never")
    fault_sign: int = metric(
        "",
        "The field of telemetry that tells this cause from the others. 0: none; 1: cached_tokens; "
        "2: encoder_cache_used; 3: file; 4: identifier; 5: kv_blocks_used; 6: namespace; 7: patch_bytes_used; "
        "8: pixels; 12: tokens.",
    )
    wrong_pictures: int = metric("count", "Pictures answered from KV or embeddings of another picture.")
    files_as_attached: int = metric("count", "Pictures sent as the very file that the user attached.")
    preemptions: int = metric("count", "Requests that started over for lack of KV blocks.")
    kv_bytes: int = metric("bytes", "kv_blocks of the accounted model.")
    encoder_cache_bytes: int = metric("bytes", "encoder_cache_embeddings of the accounted model.")
    cache_bytes: int = metric("bytes", "Both together.")
    cache_budget_bytes: int = metric("bytes", "What they may take.")
    within_budget: int = metric("0 or 1", "1 where cache_bytes ≤ cache_budget_bytes.")
    kv_peak_bytes: int = metric("bytes", "Most KV that requests held at once, at any step.")
    encoder_peak_bytes: int = metric("bytes", "Most embeddings that were stored or reserved at once.")
    encoder_cost_us: float = metric(
        "µs",
        "GPU time of encoding what it does not hold, and of the share of HBM that it takes as long as the run lasts.",
    )
    encoder_cost_smallest_us: float = metric("µs", "The same with room for one picture.")
    encoder_cost_least_us: float = metric("µs", "The same with the cheapest capacity of all.")
    share_links: float = metric("fraction", "Share of the time that users waited spent on uploads.")
    share_host: float = metric("fraction", "Share spent preprocessing on CPUs.")
    share_queue: float = metric(
        "fraction", "Share spent waiting for others' steps and images, and for budgets of a step."
    )
    share_kv_capacity: float = metric(
        "fraction", "Share spent waiting for KV blocks: not admitted, or preempted."
    )
    share_hbm_bandwidth: float = metric("fraction", "Share spent in encoding and steps bound by HBM.")
    share_flops: float = metric("fraction", "Share spent in encoding and steps bound by arithmetic.")
    cluster_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "Output tokens per GPU-second of the cluster as set.",
        label="Output tokens per GPU-second, cluster",
    )
    cluster_colocated_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "The same with every GPU doing everything.",
        label="Output tokens per GPU-second, colocated",
    )
    cluster_best_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "The best over all numbers of encoder workers.",
        label="Output tokens per GPU-second, best",
    )
    cluster_worst_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "The worst over all numbers of encoder workers.",
        label="Output tokens per GPU-second, worst",
    )
    cluster_mean_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "The mean over all numbers of encoder workers: what a blind guess gets.",
        label="Output tokens per GPU-second, mean",
    )
    cluster_best_encoder_workers: int = metric(
        "GPUs", "That number; the smallest of equals.", label="Best number of encoder workers"
    )
    cluster_ttft_us: float = metric("µs", "Mean TTFT of the cluster as set.", label="TTFT, cluster")
    cluster_colocated_ttft_us: float = metric(
        "µs", "The same with every GPU doing everything.", label="TTFT, colocated"
    )
    audio_tokens: int = metric("tokens", "Of the voice request.")
    audio_encode_us: float = metric("µs", "Time of the modelled audio encoder for it.")
    first_audio_us: float = metric("µs", "Vocoder: end of prefill to the first sound.")
    real_time_factor: float = metric(
        "ratio", "Talker or vocoder, the slower: seconds of work for a second of sound; must stay below 1."
    )
    seconds_per_image: float = metric("s", "Diffusion: one image.")

    turns: list[TurnRow] = metric("", "In the order in which they were sent.")
    occupancy: list[OccupancyRow] = metric(
        "", "After steps that read a prompt or ended a turn; thinned, with the last before every pause."
    )
    resolutions: list[ResolutionRow] = metric("", "Tokens of one picture against its size.")
    cluster: list[ClusterRow] = metric("", "Throughput and TTFT against the share of requests with pictures.")
    other_stages: dict[str, float] = metric("", "Further figures of the modelled audio and output stages.")
