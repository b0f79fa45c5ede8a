"""The router: token and a little context → integers → a linear gate → exact logits → top-k.

Every number here is an integer. The logits are computed by a float32 matrix product of integers whose partial sums
stay below 2**24, so each of them is exact in whatever order, thread count and instruction set it is added up.

P positions, D features, E experts, L layers, F fits, k experts a token.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from simworkers.moe.params import MoeParams
from simworkers.moe.placement import IntArray
from simworkers.moe.traffic_params import DOMAINS, OWN_TEXT
from simworkers.rng import Stream
from simworkers.text import BUCKETS, Library, build_library, join, load_library

FEATURES = 128  # the last one is a constant and so carries the bias
CONTEXT = 32  # tokens whose embeddings are summed, the token itself included
EMBEDDING_BOUND = 4  # embeddings are uniform in −4 … 4
CONSTANT = 64
WEIGHT_BOUND = 127
GATES_FILE = Path(__file__).parent / "gates.npz"
LOGIT_SCALE = 1 / 2048  # integer logit → what the softmax of the combine sees

BLOCK_ROWS = 2048
FEATURE_BOUND = 160  # token_features stays below
assert FEATURES * FEATURE_BOUND * WEIGHT_BOUND < 2**24, "logits would not be exact in float32"
assert FEATURES * FEATURE_BOUND * WEIGHT_BOUND * 256 < 2**31, "keys would not fit into 32 bits"


def token_features(library: Library, rows: IntArray | None = None) -> NDArray[np.int16]:
    """[P, D] integers: 5 × own embedding + 2 × the one before + the sum over CONTEXT tokens, and a constant.

    Bounded by FEATURE_BOUND: 5·4 + 2·4 + 32·4 = 156. rows: [U] only these positions.
    """
    table = _embeddings()
    chosen = slice(None) if rows is None else rows
    features: NDArray[np.int16] = 5 * table[library.tokens[chosen]] + 2 * table[library.previous(1)[chosen]]
    for back in range(CONTEXT):
        features += table[library.previous(back)[chosen]]
    features[:, -1] = CONSTANT
    return features


@functools.cache
def _embeddings() -> NDArray[np.int16]:
    """[BUCKETS, D] in ±EMBEDDING_BOUND."""
    span = 2 * EMBEDDING_BOUND + 1
    drawn = Stream(20_261, "embeddings").integers(span, BUCKETS * FEATURES).reshape(BUCKETS, FEATURES)
    return (drawn - EMBEDDING_BOUND).astype(np.int16)


@functools.cache
def _corpus_features() -> torch.Tensor:
    """[P, D] float32 that holds integers; the same for every run of a process, and never written to."""
    return torch.from_numpy(token_features(load_library(DOMAINS)).astype(np.float32))


def load_common() -> None:
    """Load what every run of a process shares: corpora, their features, the embeddings."""
    _corpus_features()


def library_of(params: MoeParams) -> Library:
    """The corpora, and the learner's own text as one more ring where it has weight."""
    corpora = load_library(DOMAINS)
    return join(corpora, build_library({OWN_TEXT: params.own_text})) if params.own_text_weight else corpora


def _features(library: Library, used: IntArray) -> torch.Tensor:
    """[U, D] float32 that holds integers. used: [U] positions, rising."""
    corpora = _corpus_features()
    split = int(np.searchsorted(used, len(corpora)))
    common = corpora[torch.from_numpy(used[:split])]
    if split == len(used):
        return common
    own = torch.from_numpy(token_features(library, used[split:]).astype(np.float32))
    return torch.cat([common, own])


@functools.cache
def load_gates(num_experts: int) -> IntArray:
    """[F, D, E] the fitted gates for this many experts, integers in ±WEIGHT_BOUND."""
    with np.load(GATES_FILE) as gates:
        return gates[f"experts_{num_experts}"].astype(np.int64)  # type: ignore[no-any-return]


def layer_gate(num_experts: int, checkpoint_seed: int, layer: int) -> IntArray:
    """[D, E] the gate of one layer: the fits in turn, each with its experts renumbered as the checkpoint says."""
    stream = Stream(checkpoint_seed, "layer", num_experts, layer)
    gates = load_gates(num_experts)
    fit = gates[(checkpoint_seed + layer) % len(gates)]
    renumbered: IntArray = fit[:, stream.permutation(num_experts)]
    return renumbered


@dataclass(frozen=True)
class Routes:
    """Routing of every position that a run uses. U such positions."""

    row: NDArray[np.int64]  # [P] position → row of the tables below; −1 where unused
    experts: NDArray[np.int16]  # [L, U, k] by falling logit
    logits: NDArray[np.int32]  # [L, U, k] exact


def route(library: Library, positions: IntArray, params: MoeParams, tick: Callable[[], None]) -> Routes:
    """Route each distinct position once per layer; a step then only looks up its tokens. tick: a sign of life."""
    used = np.unique(positions)
    row = np.full(len(library.tokens), -1, dtype=np.int64)
    row[used] = np.arange(len(used))
    features = _features(library, used)
    experts = np.empty((params.num_layers, len(used), params.top_k), dtype=np.int16)
    logits = np.empty((params.num_layers, len(used), params.top_k), dtype=np.int32)
    for layer in range(params.num_layers):
        gate = layer_gate(params.num_experts, params.checkpoint_seed, layer)
        experts[layer], logits[layer] = choose_experts(features, gate, params.top_k, tick)
    return Routes(row, experts, logits)


def choose_experts(
    features: torch.Tensor, gate: IntArray, top_k: int, tick: Callable[[], None] = lambda: None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """([U, k] experts, [U, k] logits) by falling logit; the lower expert wins a tie.

    features: [U, D] integers held as float32. Blocks of rows keep the keys inside the processor's cache.
    """
    num_experts = gate.shape[1]
    weights = torch.from_numpy(gate.astype(np.float32))
    tiebreak = np.arange(num_experts - 1, -1, -1, dtype=np.int32)
    best = np.empty((len(features), top_k), dtype=np.int64)
    for start in range(0, len(features), BLOCK_ROWS):
        logits = (features[start : start + BLOCK_ROWS] @ weights).to(torch.int32).numpy()  # exact
        # One key a pair (logit, expert). Keys differ, so which ones are largest does not hang on the algorithm.
        keys = logits * np.int32(num_experts) + tiebreak
        keys.partition(num_experts - top_k, axis=1)
        best[start : start + BLOCK_ROWS] = np.sort(keys[:, num_experts - top_k :], axis=1)[:, ::-1]
        tick()
    return num_experts - 1 - best % num_experts, best // num_experts
