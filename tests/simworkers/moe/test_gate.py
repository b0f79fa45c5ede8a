import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.moe.gate import (
    FEATURE_BOUND,
    FEATURES,
    WEIGHT_BOUND,
    choose_experts,
    layer_gate,
    load_gates,
    route,
    token_features,
)
from simworkers.moe.params import MoeParams
from simworkers.moe.traffic_params import DOMAINS
from simworkers.text import load_library


@pytest.mark.parametrize("num_experts", [8, 16, 32, 64, 128, 256])
def test_gates_are_small_integers_for_every_offered_expert_count(num_experts):
    gates = load_gates(num_experts)
    assert gates.shape[1:] == (FEATURES, num_experts)
    assert np.abs(gates).max() <= WEIGHT_BOUND


def test_features_stay_within_the_bound_that_makes_logits_exact():
    features = token_features(load_library(DOMAINS))
    assert features.shape == (len(load_library(DOMAINS).tokens), FEATURES)
    assert np.abs(features).max() <= FEATURE_BOUND


@pytest.mark.parametrize("extreme", [False, True])
def test_logits_and_choices_are_those_of_integer_arithmetic(extreme):
    """The extreme case puts every feature and weight at its bound, where float32 sums are largest."""
    features = token_features(load_library(DOMAINS))[::97]
    gate = layer_gate(256, 0, 3)
    if extreme:
        features = np.where(features % 2, FEATURE_BOUND, -FEATURE_BOUND)
        gate = np.where(gate % 2, WEIGHT_BOUND, -WEIGHT_BOUND)
    experts, logits = choose_experts(torch.from_numpy(features.astype(np.float32)), gate, 8)
    exact = features.astype(np.int64) @ gate.astype(np.int64)
    falling = np.argsort(-exact, axis=1, kind="stable")[:, :8]
    assert (experts == falling).all()
    assert (logits == np.take_along_axis(exact, falling, axis=1)).all()


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=6), st.integers(1, 4)
)
def test_the_lower_expert_wins_a_tie(weights, top_k):
    gate = np.array(weights, dtype=np.int64)  # [D, E]
    features = np.ones((1, len(weights)), dtype=np.float32)
    experts, _ = choose_experts(torch.from_numpy(features), gate, top_k)
    total = gate.sum(axis=0).tolist()
    assert experts[0].tolist() == sorted(range(4), key=lambda expert: (-total[expert], expert))[:top_k]


def test_layers_number_their_experts_differently_and_checkpoints_do_too():
    assert (layer_gate(8, 0, 0) != layer_gate(8, 0, 4)).any()
    assert (layer_gate(8, 0, 0) != layer_gate(8, 1, 0)).any()
    assert (layer_gate(8, 0, 0) == layer_gate(8, 0, 0)).all()


def test_routing_only_looks_at_used_positions_and_gives_each_token_distinct_experts():
    library = load_library(DOMAINS)
    positions = np.array([5, 900, 5, 30_000])
    routes = route(library, positions, MoeParams(num_experts=64, top_k=4, num_layers=2), lambda: None)
    assert routes.experts.shape == routes.logits.shape == (2, 3, 4)
    assert (routes.row >= 0).sum() == 3
    assert all(len(set(choice)) == 4 for choice in routes.experts.reshape(-1, 4).tolist())
