"""A request: what a caller hands in, and where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import torch


class RefusedRequest(ValueError):
    """This request could never be served; the message names the field."""


EmbeddingsKey = tuple[str, int]


@dataclass(frozen=True)
class ImageInput:
    """An image behind placeholder tokens. P patches of patch_dim numbers, as preprocessing made them.

    identifier: decides whether two images are taken for the same one, in block names and in the encoder cache.
    """

    identifier: str
    offset: int  # index of its first placeholder in the prompt
    length: int  # placeholders = embeddings
    patches: torch.Tensor  # [P, patch_dim] float32
    grid: tuple[tuple[int, int], ...]  # rows and columns of patches of each tile, in order

    @property
    def stop(self) -> int:
        return self.offset + self.length

    @property
    def key(self) -> EmbeddingsKey:
        """Under which its embeddings are found: an identifier used for images of two sizes stands for two entries."""
        return self.identifier, self.length


@dataclass(frozen=True)
class Sampling:
    """temperature 0 is greedy. The draw for output i depends on (seed, i) alone, never on the batch."""

    max_tokens: int = 16
    temperature: float = 0.0
    seed: int = 0
    stop_tokens: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise RefusedRequest(f"max_tokens: must be at least 1, not {self.max_tokens}")
        if not 0 <= self.temperature < float("inf"):
            raise RefusedRequest(f"temperature: must be 0 or a positive number, not {self.temperature}")


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    ABORTED = "aborted"


@dataclass(eq=False)
class Request:
    """One sequence. `tokens` grows by one with every output; `num_computed` of them have KV."""

    id: str
    tokens: list[int]
    num_prompt: int
    sampling: Sampling
    images: tuple[ImageInput, ...] = ()
    salt: str | None = None
    arrival: int = 0
    weight_version: int | None = None  # that names its blocks; None where versions are no part of names

    state: State = State.WAITING
    num_computed: int = 0
    blocks: list[int] = field(default_factory=list)  # block table
    hashes: list[bytes] = field(default_factory=list)  # names of its full blocks
    num_registered: int = 0  # leading blocks that others can find
    held_images: set[int] = field(default_factory=set)  # indexes of images whose embeddings it holds
    logprobs: list[float] = field(default_factory=list)  # one an output, natural logarithm
    cached_tokens: int | None = None  # at its first admission; None before
    preemptions: int = 0

    @property
    def outputs(self) -> Sequence[int]:
        return self.tokens[self.num_prompt :]

    @property
    def num_left(self) -> int:
        """Tokens known but not computed; 1 while decoding."""
        return len(self.tokens) - self.num_computed

    @property
    def decodes(self) -> bool:
        """Only its newest output is to be computed."""
        return self.num_left == 1 and len(self.tokens) > self.num_prompt

    @property
    def is_over(self) -> bool:
        return self.state in (State.FINISHED, State.ABORTED)
