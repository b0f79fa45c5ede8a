"""A decoder-only transformer over a flat batch: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

T rows of the batch, M hidden numbers, H query heads, K key-value heads, D numbers a head, F of the feed-forward, V
tokens of the vocabulary.
"""

from dataclasses import dataclass, replace

import torch
from torch.nn import functional

from simworkers.engine.arithmetic import Arithmetic, Layout
from simworkers.engine.kv_cache import KvTensors
from simworkers.engine.weights import WeightSource


@dataclass(frozen=True)
class ModelShape:
    """Widths that are multiples of 16 keep the rows of every matrix equally aligned in memory."""

    vocabulary: int = 512
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    feed_forward: int = 128
    rope_base: float = 10_000.0

    def __post_init__(self) -> None:
        for name in ("hidden", "head_dim", "feed_forward"):
            if getattr(self, name) % 16:
                raise ValueError(f"{name}: must be a multiple of 16, not {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads: {self.kv_heads} do not divide {self.heads} query heads")


@dataclass(frozen=True)
class LayerWeights:
    """A matrix is [outputs, inputs]."""

    attention_norm: torch.Tensor  # [M]
    qkv: torch.Tensor  # [(H + 2K)·D, M]
    out: torch.Tensor  # [M, H·D]
    mlp_norm: torch.Tensor  # [M]
    gate_up: torch.Tensor  # [2F, M]
    down: torch.Tensor  # [M, F]


@dataclass(frozen=True)
class ModelWeights:
    """version counts the updates: 0 as drawn."""

    embedding: torch.Tensor  # [V, M]
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor  # [M]
    head: torch.Tensor  # [V, M]
    version: int = 0

    @classmethod
    def draw(
        cls, shape: ModelShape, seed: int, dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> "ModelWeights":
        source = WeightSource(seed, dtype, device)
        wide = shape.heads * shape.head_dim
        return cls(
            embedding=source.matrix("embedding", shape.vocabulary, shape.hidden, gain=shape.hidden**0.5),
            layers=tuple(
                LayerWeights(
                    attention_norm=source.ones(shape.hidden),
                    qkv=source.matrix(
                        f"{n}.qkv", wide + 2 * shape.kv_heads * shape.head_dim, shape.hidden, gain=2.0
                    ),
                    out=source.matrix(f"{n}.out", shape.hidden, wide),
                    mlp_norm=source.ones(shape.hidden),
                    gate_up=source.matrix(f"{n}.gate_up", 2 * shape.feed_forward, shape.hidden),
                    down=source.matrix(f"{n}.down", shape.hidden, shape.feed_forward),
                )
                for n in range(shape.layers)
            ),
            norm=source.ones(shape.hidden),
            head=source.matrix("head", shape.vocabulary, shape.hidden, gain=3.0),
        )

    def updated(self, **changes: torch.Tensor) -> "ModelWeights":
        """A copy with other tensors and the next version."""
        return replace(self, **changes, version=self.version + 1)  # type: ignore[arg-type]


@dataclass(frozen=True)
class FlatBatch:
    """What one step computes: chunks of prompts and newest tokens of decoding sequences, one after the other."""

    tokens: torch.Tensor  # [T]
    positions: torch.Tensor  # [T] index in its sequence
    slots: torch.Tensor  # [T] where its keys and values go
    layout: Layout
    sampled: torch.Tensor  # [N] rows whose next token is wanted
    spliced_rows: torch.Tensor  # [E] rows that an image's embeddings replace
    spliced: torch.Tensor  # [E, M]


class Model:
    """Weights and the way through them."""

    def __init__(self, shape: ModelShape, weights: ModelWeights) -> None:
        self.shape = shape
        self.weights = weights
        self._inverse_periods = shape.rope_base ** (
            -torch.arange(0, shape.head_dim, 2, dtype=torch.float64, device=self.device) / shape.head_dim
        )  # [D ÷ 2]

    @property
    def dtype(self) -> torch.dtype:
        return self.weights.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.weights.embedding.device

    def make_cache(self, blocks: int, block_size: int) -> KvTensors:
        shape = self.shape
        return KvTensors(
            shape.layers, blocks, block_size, shape.kv_heads, shape.head_dim, self.dtype, self.device
        )

    def forward(self, batch: FlatBatch, cache: KvTensors, arithmetic: Arithmetic) -> torch.Tensor:
        """[N, V] logits of the sampled rows; writes the keys and values of all rows."""
        x = self.weights.embedding[batch.tokens]  # [T, M]
        x[batch.spliced_rows] = batch.spliced
        for layer in range(self.shape.layers):
            x = self._layer(x, layer, batch, cache, arithmetic)
        return arithmetic.map(self._logits, x[batch.sampled], batch.positions[batch.sampled])

    def _layer(
        self, x: torch.Tensor, layer: int, batch: FlatBatch, cache: KvTensors, arithmetic: Arithmetic
    ) -> torch.Tensor:
        """x: [T, M] → [T, M]"""
        shape, weights = self.shape, self.weights.layers[layer]

        def project(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:  # → [t, H + 2K, D]
            qkv = functional.linear(rms_norm(x, weights.attention_norm), weights.qkv)
            qkv = qkv.view(len(x), -1, shape.head_dim)
            turned = self._rotate(qkv[:, : -shape.kv_heads], positions)
            return torch.cat([turned, qkv[:, -shape.kv_heads :]], dim=1)

        def finish(joined: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:  # [t, M + H·D] → [t, M]
            x, mixed = joined[:, : shape.hidden], joined[:, shape.hidden :]
            x = x + functional.linear(mixed, weights.out)
            gate, up = functional.linear(rms_norm(x, weights.mlp_norm), weights.gate_up).chunk(2, dim=-1)
            return x + functional.linear(functional.silu(gate) * up, weights.down)

        qkv = arithmetic.map(project, x, batch.positions)
        queries, keys, values = torch.split(qkv, [shape.heads, shape.kv_heads, shape.kv_heads], dim=1)
        cache.write(layer, batch.slots, keys, values)
        mixed = arithmetic.attend(queries.contiguous(), batch.layout, lambda slots: cache.read(layer, slots))
        return arithmetic.map(finish, torch.cat([x, mixed.flatten(1)], dim=1), batch.positions)

    def _logits(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return functional.linear(rms_norm(x, self.weights.norm), self.weights.head)

    def _rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Turn pairs (i, i + D/2) by an angle that grows with the position. x: [t, heads, D]"""
        angles = positions[:, None].to(torch.float64) * self._inverse_periods  # [t, D ÷ 2]
        cos, sin = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


def rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """x: [t, M] ÷ its root mean square, times gain: [M]"""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * gain
