"""Modelled seconds of each stage of a multimodal request: a roofline a stage, and what binds it.

Rooflines: on a GPU the longer of moving bytes through HBM and computing FLOPs, both at the data sheet's full rate; link
and host time are added. Only + × ÷ max on float64, so that every machine gets the same bits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simworkers.hardware import GpuProfile
from simworkers.multimodal.profiles import (
    ACTIVATION_BYTES,
    DecoderProfile,
    EncoderProfile,
    VisionLanguageProfile,
)

MICROSECONDS = 1_000_000

# One CPU core: JPEG decode, bicubic resize, normalise, patchify. `python -m tests.bench.bench_preprocess_cost` found
# 18,000–30,000 from 640 × 640 to 3840 × 2160 pixels on a 2025 server core.
PREPROCESS_US_PER_MEGAPIXEL = 25_000


@dataclass(frozen=True)
class StageTime:
    """Seconds of one stage by resource. HBM and FLOPs overlap; links and host stand in line."""

    hbm_s: float = 0.0
    flops_s: float = 0.0
    links_s: float = 0.0
    host_s: float = 0.0

    @property
    def seconds(self) -> float:
        return max(self.hbm_s, self.flops_s) + self.links_s + self.host_s

    @property
    def us(self) -> int:
        """Whole microseconds, rounded up, as an event simulation takes them."""
        return math.ceil(self.seconds * MICROSECONDS)

    @property
    def binds(self) -> str:
        """hbm, flops, links or host: the largest, the earlier of equals; none where the stage takes no time."""
        parts = {"hbm": self.hbm_s, "flops": self.flops_s, "links": self.links_s, "host": self.host_s}
        largest = max(parts, key=lambda name: parts[name])
        return largest if parts[largest] > 0 else "none"


@dataclass(frozen=True)
class Placement:
    """GPUs that hold one copy of a model by tensor parallelism."""

    gpu: GpuProfile
    tensor_parallel: int = 1

    def __post_init__(self) -> None:
        if self.tensor_parallel < 1:
            raise ValueError(f"tensor_parallel must be at least 1, not {self.tensor_parallel}")

    @property
    def hbm_bytes_per_s(self) -> float:
        return self.gpu.hbm_bytes_per_s * self.tensor_parallel

    def flops_per_s(self, precision: str) -> float:
        if precision not in self.gpu.flops_per_s:
            raise ValueError(f"gpu: the {self.gpu.name} has no {precision} arithmetic")
        return self.gpu.flops_per_s[precision] * self.tensor_parallel


def upload(size_bytes: int, client_bytes_per_s: float) -> StageTime:
    """From the client to the server."""
    return StageTime(
        links_s=_amount("size_bytes", size_bytes) / _rate("client_bytes_per_s", client_bytes_per_s)
    )


def preprocess(pixels: int, us_per_megapixel: int = PREPROCESS_US_PER_MEGAPIXEL) -> StageTime:
    """On one CPU core, outside the engine's loop."""
    return StageTime(host_s=_amount("pixels", pixels) * us_per_megapixel / 1e12)


def encode_flops(encoder: EncoderProfile, sequences: Sequence[int]) -> int:
    """Multiply and add of every weight for every patch, plus scores and weighted sums of attention.

    sequences: patches of each, which attend to themselves. The projector's weights, 2–26% of the whole, see a quarter
    of the positions; counting them for every patch overstates.
    """
    windowed = encoder.layers - encoder.full_attention_layers
    flops = 0
    for patches in sequences:
        keys = encoder.full_attention_layers * patches + windowed * min(patches, encoder.window_patches)
        flops += 2 * encoder.weights * patches + 4 * patches * keys * encoder.hidden
    return flops


def encode(encoder: EncoderProfile, gpu: GpuProfile, sequences: Sequence[int]) -> StageTime:
    """One batch on one GPU: weights are read once.

    Tensor parallelism is no parameter: on H20s the ViT of Qwen2.5-VL-72B took 492, 466 and 524 ms for four images on
    2, 4 and 8 GPUs (lmsys.org, 12 January 2026), so a group of GPUs is taken to encode as fast as one of them.
    """
    if any(patches < 1 for patches in sequences):
        raise ValueError("sequences: each needs at least one patch")
    if not sequences:
        return StageTime()
    return StageTime(
        hbm_s=encoder.weights_bytes / gpu.hbm_bytes_per_s,
        flops_s=encode_flops(encoder, sequences) / gpu.flops_per_s["bf16"],
    )


def transfer(
    model: VisionLanguageProfile, tokens: int, link_bytes_per_s: float, latency_us: int = 0
) -> StageTime:
    """Embeddings of an image from an encoder worker to a prefill worker."""
    sent_bytes = _amount("tokens", tokens) * model.embedding_bytes
    wire_s = sent_bytes / _rate("link_bytes_per_s", link_bytes_per_s)
    return StageTime(links_s=wire_s + latency_us / MICROSECONDS if tokens else 0.0)


def decoder_pass(
    decoder: DecoderProfile, placement: Placement, tokens: int, read_tokens: int, pairs: int
) -> StageTime:
    """One pass of the decoder over a mixed batch.

    tokens: new positions. read_tokens: KV positions that attention reads from HBM. pairs: query-key pairs in one layer
    and head. Tensor parallelism adds two ring all-reduces of the hidden states a layer.
    """
    if not tokens:
        return StageTime()
    moved_bytes = decoder.read_bytes(tokens) + read_tokens * decoder.kv_bytes_per_token
    weight_s = 2 * decoder.active_weights * tokens / placement.flops_per_s(decoder.precision)
    attention_s = 4 * pairs * decoder.layers * decoder.query_width / placement.flops_per_s("bf16")
    ranks = placement.tensor_parallel
    reduced_bytes = 2 * decoder.layers * 2 * tokens * decoder.hidden * ACTIVATION_BYTES * (ranks - 1) // ranks
    return StageTime(
        hbm_s=moved_bytes / placement.hbm_bytes_per_s,
        flops_s=weight_s + attention_s,
        links_s=reduced_bytes / placement.gpu.nvlink_bytes_per_s,
    )


def prefill(
    decoder: DecoderProfile, placement: Placement, new_tokens: int, cached_tokens: int = 0
) -> StageTime:
    """new_tokens of one request whose first cached_tokens have KV already. Attention is causal."""
    new, cached = _amount("new_tokens", new_tokens), _amount("cached_tokens", cached_tokens)
    return decoder_pass(decoder, placement, new, cached, causal_pairs(new, cached))


def decode_step(decoder: DecoderProfile, placement: Placement, contexts: Sequence[int]) -> StageTime:
    """One token for each request of a batch. contexts: KV tokens that each of them reads, its new one included."""
    if any(context < 1 for context in contexts):
        raise ValueError("contexts: each holds at least the new token")
    return decoder_pass(decoder, placement, len(contexts), sum(contexts), sum(contexts))


def causal_pairs(new_tokens: int, cached_tokens: int) -> int:
    """Query-key pairs when each new token attends to all cached ones, itself and the new ones before it."""
    return new_tokens * cached_tokens + new_tokens * (new_tokens + 1) // 2


def _amount(name: str, value: int) -> int:
    if value < 0:
        raise ValueError(f"{name} must not be negative, not {value}")
    return value


def _rate(name: str, value: float) -> float:
    if not value > 0:
        raise ValueError(f"{name} must be positive, not {value}")
    return value
