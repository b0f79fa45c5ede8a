"""Sizes and switches of an engine."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Limits:
    """What a step may do. Tokens are rows of the flat batch; an image counts its embeddings.

    max_chunk: largest piece of one prompt in a step (0: as much as the token budget leaves), so that a long prompt
    leaves room for others behind it.
    """

    token_budget: int = 512
    encoder_budget: int = 512
    max_running: int = 64
    max_chunk: int = 0

    def __post_init__(self) -> None:
        for name, least in (("token_budget", 1), ("encoder_budget", 0), ("max_running", 1), ("max_chunk", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True)
class EngineConfig:
    """Sizes and switches. Capacities are in KV blocks and in embeddings."""

    num_blocks: int = 256
    block_size: int = 16
    encoder_cache_embeddings: int = 1024
    limits: Limits = field(default_factory=Limits)
    prefix_caching: bool = True
    encoder_caching: bool = True
    weight_version_in_hash: bool = False
    arithmetic: Literal["batched", "per_row"] = "batched"
