"""Vision-language models and two more GPUs as numbers. Units: weights (parameters), bytes, pixels, patches.

Every shape is public; tests add the matrices of a shape up to the published number of weights.
"""

from dataclasses import dataclass
from functools import cache

from simworkers.hardware import BYTES_PER_WEIGHT, GB, GPUS, GpuProfile

ENCODER_WEIGHT_BYTES = BYTES_PER_WEIGHT["bf16"]
ACTIVATION_BYTES = 2  # bf16: embeddings and KV

# What public multimodal benchmarks ran on. A100: data sheet, 80 GB SXM, which has no FP8. H20: the memory, bandwidth
# and peaks that vendors of this export variant list.
STAGE_GPUS = GPUS | {
    "a100": GpuProfile("A100 SXM", 80 * GB, 2.039e12, {"bf16": 312e12}, 300e9, 25e9),
    "h20": GpuProfile("H20", 96 * GB, 4.0e12, {"bf16": 148e12, "fp8": 296e12}, 450e9),
}


@dataclass(frozen=True)
class EncoderProfile:
    """A vision transformer. weights include the merger or projector into the decoder's width.

    full_attention_layers: layers in which a patch attends to all of its sequence; in the others to at most
    window_patches. tile_px: side of the tiles that are encoded apart, None where an image is one sequence. max_tiles:
    of one image, the thumbnail not counted.
    """

    name: str
    weights: int
    layers: int
    hidden: int
    ffn_hidden: int
    ffn_matrices: int
    patch_px: int
    merge: int  # merge × merge patches make one embedding
    full_attention_layers: int
    window_patches: int
    tile_px: int | None = None
    max_tiles: int = 0

    @property
    def weights_bytes(self) -> int:
        return self.weights * ENCODER_WEIGHT_BYTES

    @property
    def patches_per_token(self) -> int:
        return self.merge * self.merge

    @property
    def layer_weights(self) -> int:
        """Of all layers: query, key, value and output projection, and the feed-forward part."""
        return self.layers * (4 * self.hidden**2 + self.ffn_matrices * self.hidden * self.ffn_hidden)


@dataclass(frozen=True)
class DecoderProfile:
    """A decoder-only language model with grouped-query attention and gated feed-forward parts.

    ffn_hidden: of the one feed-forward part of a layer or, where there are experts, of each. Experts are taken to be in
    every layer and to be hit evenly.
    """

    name: str
    weights: int
    layers: int
    hidden: int
    query_heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    vocabulary: int
    tied_embeddings: bool = False
    experts: int = 1
    experts_per_token: int = 1
    precision: str = "bf16"  # of weights and of their products; attention is bf16

    @property
    def weights_bytes(self) -> int:
        return self.weights * BYTES_PER_WEIGHT[self.precision]

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_dim * ACTIVATION_BYTES

    @property
    def embedding_bytes(self) -> int:
        """Of one token's embedding, as an encoder sends it."""
        return self.hidden * ACTIVATION_BYTES

    @property
    def query_width(self) -> int:
        return self.query_heads * self.head_dim

    @property
    def attention_weights(self) -> int:
        """Of all layers."""
        return self.layers * 2 * self.hidden * (self.query_heads + self.kv_heads) * self.head_dim

    @property
    def ffn_weights(self) -> int:
        """Of one expert (or the one feed-forward part) in all layers."""
        return self.layers * 3 * self.hidden * self.ffn_hidden

    @property
    def vocabulary_weights(self) -> int:
        return self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)

    @property
    def active_weights(self) -> int:
        """Weights that one token is multiplied with.

        The table of input embeddings is among them, here and in read_bytes, although it is only looked up. Where it is
        not tied to the output this overstates both: by 7.2% of all weights for Qwen2-7B, 2.9% for InternLM2-20B.
        """
        return self.weights - (self.experts - self.experts_per_token) * self.ffn_weights

    def read_bytes(self, tokens: int) -> float:
        """Weights that a pass over so many tokens reads: all but the experts that no token reached, on average."""
        unread = (
            _unreached_share(self.experts, self.experts_per_token, tokens) * self.experts * self.ffn_weights
        )
        return (self.weights - unread) * BYTES_PER_WEIGHT[self.precision]


@cache
def _unreached_share(experts: int, experts_per_token: int, tokens: int) -> float:
    """(1 − k/E)^n by repeated products, which round alike everywhere; powers need not."""
    share, missed = 1.0, 1.0 - experts_per_token / experts
    for _ in range(tokens):
        share *= missed
        if share < 1e-9:
            return 0.0
    return share


@dataclass(frozen=True)
class VisionLanguageProfile:
    """An encoder in front of a decoder."""

    name: str
    encoder: EncoderProfile
    decoder: DecoderProfile

    @property
    def embedding_bytes(self) -> int:
        return self.decoder.embedding_bytes

    def image_sequences(self, width_px: int, height_px: int) -> tuple[int, ...]:
        """Patches of each sequence that the encoder sees for one image: itself, or its tiles and a thumbnail.

        Sides are rounded to whole merged patches (at least one), or to whole tiles; an image that would make more tiles
        than max_tiles is scaled down to as many.
        """
        if width_px < 1 or height_px < 1:
            raise ValueError(f"an image of {width_px} × {height_px} pixels has no area")
        encoder = self.encoder
        if encoder.tile_px:
            tiles = _at_least_one(width_px, encoder.tile_px) * _at_least_one(height_px, encoder.tile_px)
            tiles = min(tiles, encoder.max_tiles)
            patches = (encoder.tile_px // encoder.patch_px) ** 2
            return (patches,) * (tiles + (1 if tiles > 1 else 0))
        merged_px = encoder.patch_px * encoder.merge
        tokens = _at_least_one(width_px, merged_px) * _at_least_one(height_px, merged_px)
        return (tokens * encoder.patches_per_token,)

    def image_tokens(self, width_px: int, height_px: int) -> int:
        """Embeddings, which are prompt tokens, of one image."""
        return sum(self.image_sequences(width_px, height_px)) // self.encoder.patches_per_token


def _at_least_one(side_px: int, unit_px: int) -> int:
    """Whole units in a side, to the nearest, halves up."""
    return max(1, (2 * side_px + unit_px) // (2 * unit_px))


# arXiv 2409.12191: a ViT of 675M weights, 32 layers of width 1280; 14-pixel patches, four a token, native resolution.
QWEN2_VIT = EncoderProfile("Qwen2-VL ViT", 675_000_000, 32, 1280, 5120, 2, 14, 2, 32, 0)
# arXiv 2502.13923: the same size with a gated feed-forward part of 3420 (rounded there to 3456); all layers but four
# attend in windows of 112 × 112 pixels, which are 8 × 8 patches.
QWEN2_5_VIT = EncoderProfile("Qwen2.5-VL ViT", 675_000_000, 32, 1280, 3420, 3, 14, 2, 4, 64)
# arXiv 2404.16821: InternViT-6B without its last three blocks, 5,540M weights; 448-pixel tiles of 1,024 patches,
# 256 tokens. The projector takes 4 × 3200 to 6144 and 6144 to 6144. The released
# configuration cuts an image into at most 12 tiles, besides the thumbnail.
INTERN_VIT = EncoderProfile("InternViT-6B", 5_660_000_000, 45, 3200, 12800, 2, 14, 2, 45, 0, 448, 12)
# arXiv 2511.21631: SigLIP2-Large beside the 4B decoder, 24 layers of width 1024, 16-pixel patches, and four mergers
# (one at the end, three for earlier layers) of 4096 to 4096 to 2560.
QWEN3_VIT = EncoderProfile("Qwen3-VL ViT, large", 415_000_000, 24, 1024, 4096, 2, 16, 2, 24, 0)

# arXiv 2407.10671: 28 layers, 28 query and 4 KV heads of 128; 7.6B weights. 72B: 80 layers, 64 and 8 heads.
QWEN2_7B = DecoderProfile("Qwen2-7B", 7_616_000_000, 28, 3584, 28, 4, 128, 18944, 152064)
QWEN2_72B = DecoderProfile("Qwen2-72B", 72_700_000_000, 80, 8192, 64, 8, 128, 29568, 152064)
# arXiv 2403.17297: 48 layers, 48 query and 8 KV heads of 128; 19.9B weights.
INTERN_LM2_20B = DecoderProfile("InternLM2-20B", 19_861_000_000, 48, 6144, 48, 8, 128, 16384, 92553)
# The same report: SigLIP2-SO400M beside the largest decoder, 27 layers of width 1152.
QWEN3_VIT_LARGEST = EncoderProfile("Qwen3-VL ViT, SO400M", 576_000_000, 27, 1152, 4304, 2, 16, 2, 27, 0)

# arXiv 2505.09388: 36 layers, 32 query and 8 KV heads of 128, tied embeddings; 4.0B weights. 235B-A22B: 94 layers, 64
# and 4 heads, 8 of 128 experts of width 1536 a token; here in FP8, as it is served.
QWEN3_4B = DecoderProfile("Qwen3-4B", 4_022_000_000, 36, 2560, 32, 8, 128, 9728, 151936, True)
QWEN3_235B = DecoderProfile(
    "Qwen3-235B-A22B", 235_090_000_000, 94, 4096, 64, 4, 128, 1536, 151936, False, 128, 8, "fp8"
)

VISION_LANGUAGE_MODELS = {
    "qwen2-vl-7b": VisionLanguageProfile("Qwen2-VL-7B", QWEN2_VIT, QWEN2_7B),
    "qwen2.5-vl-7b": VisionLanguageProfile("Qwen2.5-VL-7B", QWEN2_5_VIT, QWEN2_7B),
    "qwen2.5-vl-72b": VisionLanguageProfile("Qwen2.5-VL-72B", QWEN2_5_VIT, QWEN2_72B),
    "qwen3-vl-4b": VisionLanguageProfile("Qwen3-VL-4B", QWEN3_VIT, QWEN3_4B),
    "qwen3-vl-235b-a22b": VisionLanguageProfile("Qwen3-VL-235B-A22B FP8", QWEN3_VIT_LARGEST, QWEN3_235B),
    "internvl2-26b": VisionLanguageProfile("InternVL2-26B", INTERN_VIT, INTERN_LM2_20B),
}
