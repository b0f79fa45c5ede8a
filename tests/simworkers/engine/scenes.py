"""Tiny models, engines and requests for the engine's tests."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from simworkers.engine.config import EngineConfig, Limits
from simworkers.engine.encoder import MERGE, Encoder, EncoderShape
from simworkers.engine.engine import Engine
from simworkers.engine.model import Model, ModelShape, ModelWeights
from simworkers.engine.request import ImageInput, Sampling
from simworkers.rng import Stream

SHAPE = ModelShape(vocabulary=64, hidden=32, layers=2, heads=4, kv_heads=2, head_dim=16, feed_forward=48)
ENCODER_SHAPE = EncoderShape(patch_numbers=12, hidden=16, layers=1, heads=2, feed_forward=32, out=32)
PLACEHOLDER = 0


def model(dtype: torch.dtype = torch.float64, seed: int = 1) -> Model:
    return Model(SHAPE, _weights(dtype, seed))


@cache
def _weights(dtype: torch.dtype, seed: int) -> ModelWeights:
    return ModelWeights.draw(SHAPE, seed, dtype)


@cache
def encoder(dtype: torch.dtype = torch.float64) -> Encoder:
    return Encoder(ENCODER_SHAPE, 2, dtype)


def engine(dtype: torch.dtype = torch.float64, **settings: Any) -> Engine:
    names = Limits.__dataclass_fields__
    limits = Limits(**{name: settings.pop(name) for name in list(settings) if name in names})
    defaults = {"num_blocks": 64, "block_size": 4, "encoder_cache_embeddings": 64}
    return Engine(model(dtype), encoder(dtype), EngineConfig(limits=limits, **(defaults | settings)))


FOUR_GREEDY = Sampling(max_tokens=4)


@dataclass(frozen=True)
class Asked:
    """What a request brings."""

    prompt: tuple[int, ...]
    sampling: Sampling = FOUR_GREEDY
    images: tuple[ImageInput, ...] = ()
    salt: str | None = None


def parts_of(asked: Asked) -> tuple[Any, ...]:
    """As `Engine.add_request` takes them, after the name."""
    return asked.prompt, asked.sampling, asked.images, asked.salt


def words(seed: int, count: int) -> tuple[int, ...]:
    """Token ids that are no placeholders."""
    return tuple(int(word) + 1 for word in Stream(seed, "words").integers(SHAPE.vocabulary - 1, count))


def image(
    name: int, offset: int, rows: int = 4, columns: int = 4, identifier: str | None = None
) -> ImageInput:
    numbers = Stream(name, "image").integers(256, rows * columns * ENCODER_SHAPE.patch_numbers)
    patches = torch.from_numpy((numbers / 127.5 - 1).astype(np.float32)).view(rows * columns, -1)
    length = rows * columns // MERGE**2
    return ImageInput(
        identifier or f"image-{name}-{rows}x{columns}", offset, length, patches, ((rows, columns),)
    )


def with_images(*parts: tuple[int, ...] | int, **asked: Any) -> Asked:
    """A prompt of words and images: each part is token ids, or the name of an image of 4 embeddings."""
    prompt: list[int] = []
    images = []
    for part in parts:
        if isinstance(part, int):
            images.append(image(part, len(prompt)))
            prompt += [PLACEHOLDER] * images[-1].length
        else:
            prompt += part
    return Asked(tuple(prompt), images=tuple(images), **asked)


def serve(server: Engine, *requests: Asked) -> list[tuple[list[int], list[float]]]:
    """Hand all in at once and run; outputs and log-probabilities of each."""
    begun = len(server.requests) + server.statistics.requests
    under_way = [
        server.add_request(f"r{begun + n}", asked.prompt, asked.sampling, asked.images, asked.salt)
        for n, asked in enumerate(requests)
    ]
    while not server.scheduler.is_idle:
        server.step()
        server.check_integrity()
    return [(list(request.outputs), request.logprobs) for request in under_way]
