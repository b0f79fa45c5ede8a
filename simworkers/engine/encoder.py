"""A vision transformer that turns the patches of an image into embeddings for the language model.

Images are encoded one at a time, tile by tile, so that an image's embeddings never depend on what else a step encodes.
P patches of a tile, laid in rows; W hidden numbers; M of the language model.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from simworkers.engine.weights import WeightSource

MERGE = 2  # MERGE × MERGE neighbouring patches become one embedding


@dataclass(frozen=True)
class EncoderShape:
    patch_numbers: int = 588  # 14 × 14 pixels × 3
    hidden: int = 64
    layers: int = 2
    heads: int = 4
    feed_forward: int = 128
    out: int = 64  # hidden numbers of the language model


@dataclass(frozen=True)
class _Layer:
    norm: torch.Tensor  # [W]
    qkv: torch.Tensor  # [3W, W]
    out: torch.Tensor  # [W, W]
    mlp_norm: torch.Tensor  # [W]
    up: torch.Tensor  # [F, W]
    down: torch.Tensor  # [W, F]


class Encoder:
    """Seeded weights and the way through them."""

    def __init__(
        self, shape: EncoderShape, seed: int, dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> None:
        source = WeightSource(seed, dtype, device)
        wide = shape.hidden
        self.shape = shape
        self.embed = source.matrix("patches", wide, shape.patch_numbers)
        self.layers = tuple(
            _Layer(
                norm=source.ones(wide),
                qkv=source.matrix(f"{n}.qkv", 3 * wide, wide),
                out=source.matrix(f"{n}.out", wide, wide),
                mlp_norm=source.ones(wide),
                up=source.matrix(f"{n}.up", shape.feed_forward, wide),
                down=source.matrix(f"{n}.down", wide, shape.feed_forward),
            )
            for n in range(shape.layers)
        )
        self.merge = source.matrix("merge", shape.out, MERGE * MERGE * wide, gain=shape.out**0.5)

    def count_embeddings(self, grid: tuple[tuple[int, int], ...]) -> int:
        """Embeddings of an image with these tiles; 0 if a side does not divide by MERGE."""
        if any(rows % MERGE or columns % MERGE or rows < 1 or columns < 1 for rows, columns in grid):
            return 0
        return sum(rows * columns for rows, columns in grid) // MERGE**2

    def encode(self, patches: torch.Tensor, grid: tuple[tuple[int, int], ...]) -> torch.Tensor:
        """patches: [sum of P, patch_numbers] of all tiles → [sum of P ÷ MERGE², M]. ValueError if they do not fit."""
        counts = [rows * columns for rows, columns in grid]
        if sum(counts) != len(patches):
            raise ValueError(f"grid: names {sum(counts)} patches, there are {len(patches)}")
        tiles = zip(torch.split(patches.to(self.embed), counts), grid, strict=True)
        return torch.cat([self._encode_tile(tile, *sides) for tile, sides in tiles])

    def _encode_tile(self, patches: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
        """patches: [P, patch_numbers] → [P ÷ MERGE², M]"""
        x = functional.linear(patches, self.embed) + self._places(rows, columns)
        for layer in self.layers:
            x = self._layer(x, layer)
        wide = self.shape.hidden
        squares = x.view(rows // MERGE, MERGE, columns // MERGE, MERGE, wide).transpose(1, 2)
        merged = functional.linear(squares.reshape(-1, MERGE * MERGE * wide), self.merge)
        return merged * torch.rsqrt(merged.square().mean(dim=-1, keepdim=True) + 1e-6)

    def _layer(self, x: torch.Tensor, layer: _Layer) -> torch.Tensor:
        """x: [P, W] → [P, W]; every patch sees every patch of its tile."""
        heads = self.shape.heads
        qkv = functional.linear(functional.layer_norm(x, x.shape[-1:], layer.norm), layer.qkv)
        queries, keys, values = qkv.view(len(x), 3, heads, -1).permute(1, 2, 0, 3)  # [heads, P, W ÷ heads]
        scores = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[-1])
        mixed = (torch.softmax(scores, dim=-1) @ values).transpose(0, 1).reshape(len(x), -1)
        x = x + functional.linear(mixed, layer.out)
        hidden = functional.gelu(
            functional.linear(functional.layer_norm(x, x.shape[-1:], layer.mlp_norm), layer.up)
        )
        return x + functional.linear(hidden, layer.down)

    def _places(self, rows: int, columns: int) -> torch.Tensor:
        """[P, W] sines and cosines of row and column, half of the width each."""
        quarter = self.shape.hidden // 4
        periods = 100.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
        row = torch.arange(rows).repeat_interleave(columns)[:, None] * periods
        column = torch.arange(columns).repeat(rows)[:, None] * periods
        return torch.cat([row.sin(), row.cos(), column.sin(), column.cos()], dim=1).to(self.embed)
