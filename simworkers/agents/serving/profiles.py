"""Language models that agents are served with, as numbers. Every shape is public; FLOPs count multiply and add.

Units: weights (parameters), bytes, tokens.
"""

from dataclasses import dataclass

from simworkers.hardware import BYTES_PER_WEIGHT

ACTIVATION_BYTES = 2  # bf16: hidden states and KV


@dataclass(frozen=True)
class ServedModel:
    """A decoder-only model. Experts, where there are any, are taken to be in every layer and to be hit evenly.

    kv_shards: parts that a token's KV divides into, its heads; a latent is one. Tensor parallelism over more GPUs holds
    and reads them more than once.
    attention_width: numbers that scores and weighted sums take together for one query-key pair in one layer.
    """

    name: str
    weights: int
    active_weights: int  # that one token is multiplied with
    layers: int
    hidden: int
    kv_bytes_per_token: int  # of one copy
    kv_shards: int
    attention_width: int
    precision: str = "bf16"
    experts: int = 1
    experts_per_token: int = 1

    @property
    def weights_bytes(self) -> int:
        return self.weights * BYTES_PER_WEIGHT[self.precision]

    def kv_copies(self, tensor_parallel: int) -> int:
        """Of each part of a token's KV, over so many GPUs."""
        return max(tensor_parallel // self.kv_shards, 1)

    def read_bytes(self, tokens: int) -> int:
        """Weights that a step of so many tokens reads: all that every token needs, and each expert that may be hit."""
        size = BYTES_PER_WEIGHT[self.precision]
        if self.experts == 1:
            return self.weights * size
        one_expert = (self.weights - self.active_weights) // (self.experts - self.experts_per_token)
        hit = min(self.experts, tokens * self.experts_per_token)
        return (self.weights - (self.experts - hit) * one_expert) * size


def _grouped(layers: int, kv_heads: int, head_dim: int) -> int:
    """KV bytes of a token under grouped-query attention."""
    return 2 * layers * kv_heads * head_dim * ACTIVATION_BYTES


MODELS = {
    # 64 query heads of 128 (arXiv 2505.09388).
    "qwen3-32b": ServedModel(
        "Qwen3-32B", 32_800_000_000, 32_800_000_000, 64, 5120, _grouped(64, 8, 128), 8, 2 * 64 * 128
    ),
    # 32 query heads of 128; 8 of 128 experts (arXiv 2505.09388).
    "qwen3-30b-a3b": ServedModel(
        "Qwen3-30B-A3B",
        30_500_000_000,
        3_300_000_000,
        48,
        2048,
        _grouped(48, 4, 128),
        4,
        2 * 32 * 128,
        experts=128,
        experts_per_token=8,
    ),
    # 64 query heads of 128; 8 of 128 experts, served in FP8 (arXiv 2505.09388).
    "qwen3-235b-a22b": ServedModel(
        "Qwen3-235B-A22B",
        235_000_000_000,
        22_000_000_000,
        94,
        4096,
        _grouped(94, 4, 128),
        4,
        2 * 64 * 128,
        precision="fp8",
        experts=128,
        experts_per_token=8,
    ),
    # 64 query heads of 128 (arXiv 2407.21783).
    "llama-3.1-70b": ServedModel(
        "Llama 3.1 70B", 70_600_000_000, 70_600_000_000, 80, 8192, _grouped(80, 8, 128), 8, 2 * 64 * 128
    ),
    # Latent KV of 61 layers × 576 numbers; 128 heads score 576 and sum 512 latent numbers; 8 of 256 experts, and
    # published in FP8 (arXiv 2412.19437).
    "deepseek-v3": ServedModel(
        "DeepSeek-V3",
        671_000_000_000,
        37_000_000_000,
        61,
        7168,
        61 * 576 * ACTIVATION_BYTES,
        1,
        128 * (576 + 512),
        precision="fp8",
        experts=256,
        experts_per_token=8,
    ),
}
