"""GPUs and models as numbers, and the roofline that joins them. Units: bytes, seconds, FLOPs; GB = 10⁹ bytes."""

from dataclasses import dataclass

BYTES_PER_WEIGHT = {"fp8": 1, "bf16": 2}
ACTIVATION_BYTES = 2  # bf16: what combine sends back
GB = 10**9


@dataclass(frozen=True)
class GpuProfile:
    """Public data sheet figures; dense peaks. NVLink is one way; network is one 400 Gb/s adapter a GPU."""

    name: str
    hbm_bytes: int
    hbm_bytes_per_s: float
    flops_per_s: dict[str, float]
    nvlink_bytes_per_s: float
    network_bytes_per_s: float = 50e9


GPUS = {
    "h100": GpuProfile("H100 SXM", 80 * GB, 3.35e12, {"bf16": 989e12, "fp8": 1979e12}, 450e9),
    "h200": GpuProfile("H200", 141 * GB, 4.8e12, {"bf16": 989e12, "fp8": 1979e12}, 450e9),
    "b200": GpuProfile("B200", 180 * GB, 8e12, {"bf16": 2250e12, "fp8": 4500e12}, 900e9),
}


@dataclass(frozen=True)
class ModelProfile:
    """Shape of one routed expert, and what a GPU holds besides.

    other_weights: all weights outside routed experts (attention, shared expert, embeddings), here replicated on every
    GPU as data-parallel attention does.
    """

    name: str
    hidden: int
    expert_hidden: int
    moe_layers: int
    other_weights: int
    kv_bytes_per_token: int

    @property
    def expert_weights(self) -> int:
        """Gate, up and down projection."""
        return 3 * self.hidden * self.expert_hidden

    def expert_bytes(self, precision: str) -> int:
        return self.expert_weights * BYTES_PER_WEIGHT[precision]

    @property
    def flops_per_token(self) -> int:
        """Multiply and add for every weight of one expert."""
        return 2 * self.expert_weights


MODELS = {
    # 671e9 weights, 58 × 256 of them experts; latent KV of 61 layers × 576 numbers × 2 bytes (arXiv 2412.19437).
    "deepseek-v3": ModelProfile("DeepSeek-V3", 7168, 2048, 58, 17_100_000_000, 61 * 576 * 2),
    # 46.7e9 weights, 32 × 8 experts; 8 KV heads of 128 in 32 layers (arXiv 2401.04088).
    "mixtral-8x7b": ModelProfile("Mixtral 8x7B", 4096, 14336, 32, 1_600_000_000, 32 * 2 * 8 * 128 * 2),
    # 30.5e9 weights, 48 × 128 experts; 4 KV heads of 128 in 48 layers (arXiv 2505.09388).
    "qwen3-30b-a3b": ModelProfile("Qwen3-30B-A3B", 2048, 768, 48, 1_500_000_000, 48 * 2 * 4 * 128 * 2),
}


@dataclass(frozen=True)
class Roofline:
    """Time of one expert on one GPU: the longer of reading its weights once and computing its tokens."""

    read_s: float  # weights of one slot through HBM
    token_s: float  # arithmetic of one token

    @classmethod
    def of(cls, gpu: GpuProfile, model: ModelProfile, precision: str) -> "Roofline":
        return cls(
            read_s=model.expert_bytes(precision) / gpu.hbm_bytes_per_s,
            token_s=model.flops_per_token / gpu.flops_per_s[precision],
        )

    def expert_s(self, tokens: int) -> float:
        """Seconds for one slot; nothing where no token reached it, since its weights are not read then."""
        return max(self.read_s, tokens * self.token_s) if tokens else 0.0
