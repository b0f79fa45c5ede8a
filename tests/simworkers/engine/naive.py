"""A reference to hold the engine against: one sequence at a time, everything recomputed for every token, no cache.

Written from the formulas; it shares nothing with the engine but its weights and the integer draws of a sampler.
"""

import math
from collections.abc import Sequence

import torch

from simworkers.engine.encoder import Encoder
from simworkers.engine.model import Model
from simworkers.engine.request import ImageInput, Sampling
from simworkers.rng import Stream


def norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gain


def turned(vector: torch.Tensor, position: int, base: float) -> torch.Tensor:
    """Rotary embedding of one head's numbers, as complex multiplication."""
    half = len(vector) // 2
    pairs = torch.complex(vector[:half].double(), vector[half:].double())
    angles = torch.tensor(
        [position * base ** (-2 * i / len(vector)) for i in range(half)], dtype=torch.float64
    )
    out = pairs * torch.polar(torch.ones(half, dtype=torch.float64), angles)
    return torch.cat([out.real, out.imag]).to(vector.dtype)


def hidden_states(model: Model, x: torch.Tensor) -> torch.Tensor:
    """x: [T, M] embeddings of a whole sequence → [T, M]"""
    shape = model.shape
    for layer in model.weights.layers:
        q, k, v = [], [], []
        for position, row in enumerate(norm(x, layer.attention_norm) @ layer.qkv.T):
            heads = row.view(-1, shape.head_dim)
            q.append([turned(h, position, shape.rope_base) for h in heads[: shape.heads]])
            k.append(
                [
                    turned(h, position, shape.rope_base)
                    for h in heads[shape.heads : shape.heads + shape.kv_heads]
                ]
            )
            v.append(heads[shape.heads + shape.kv_heads :])
        keys = torch.stack([torch.stack(row) for row in k])
        values = torch.stack(v)
        mixed = []
        for position in range(len(x)):
            out = []
            for head in range(shape.heads):
                own = head // (shape.heads // shape.kv_heads)
                scores = keys[: position + 1, own] @ q[position][head] / math.sqrt(shape.head_dim)
                out.append(torch.softmax(scores, 0) @ values[: position + 1, own])
            mixed.append(torch.cat(out))
        x = x + torch.stack(mixed) @ layer.out.T
        gate, up = (norm(x, layer.mlp_norm) @ layer.gate_up.T).chunk(2, -1)
        x = x + (gate * torch.sigmoid(gate) * up) @ layer.down.T
    return x


def embeddings(
    model: Model, encoder: Encoder | None, tokens: Sequence[int], images: Sequence[ImageInput]
) -> torch.Tensor:
    x = model.weights.embedding[torch.tensor(tokens)].clone()
    for image in images:
        assert encoder is not None
        x[image.offset : image.offset + image.length] = encoder.encode(image.patches, image.grid)
    return x


def next_token(logits: torch.Tensor, sampling: Sampling, index: int) -> tuple[int, float]:
    shares = torch.exp(logits.double() - torch.logsumexp(logits.double(), 0))
    if sampling.temperature == 0:
        token = max(range(len(logits)), key=lambda t: (float(logits[t]), -t))
    else:
        tempered = torch.softmax(torch.log(shares) / sampling.temperature, 0)
        at = (int(Stream(sampling.seed, "sample", index).words(1)[0]) >> 11) / 2**53 * float(tempered.sum())
        reached = 0.0
        token = len(logits) - 1
        for candidate, share in enumerate(tempered.tolist()):
            reached += share
            if at < reached:
                token = candidate
                break
    return token, math.log(float(shares[token]))


def generate(
    model: Model,
    encoder: Encoder | None,
    prompt: Sequence[int],
    sampling: Sampling,
    images: Sequence[ImageInput] = (),
) -> tuple[list[int], list[float]]:
    """Output tokens and their log-probabilities."""
    tokens, logprobs = list(prompt), []
    for index in range(sampling.max_tokens):
        states = hidden_states(model, embeddings(model, encoder, tokens, images))
        logits = norm(states[-1:], model.weights.norm)[0] @ model.weights.head.T
        token, logprob = next_token(logits, sampling, index)
        tokens.append(token)
        logprobs.append(logprob)
        if token in sampling.stop_tokens:
            break
    return tokens[len(prompt) :], logprobs
