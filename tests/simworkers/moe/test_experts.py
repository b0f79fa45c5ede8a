import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.moe.experts import HIDDEN, INNER, SlotTable, dispatch, load_experts, run_experts
from simworkers.moe.placement import Placement, place_contiguously
from simworkers.moe.shuffle import move_weights, plan_move


@st.composite
def routed(draw):
    """(experts [T, k], placement of one layer) with every expert in some slot."""
    experts = draw(st.integers(2, 6))
    top_k = draw(st.integers(1, experts))
    extra = draw(st.lists(st.integers(0, experts - 1), max_size=4))
    slots = draw(st.permutations([*range(experts), *extra]))
    choices = draw(st.lists(st.permutations(range(experts)), min_size=1, max_size=12))
    chosen = np.array([choice[:top_k] for choice in choices], dtype=np.int16)
    return chosen, Placement(np.array([slots]), experts, 1)


@settings(deadline=None)
@given(routed())
def test_dispatch_agrees_with_a_walk_over_tokens(problem):
    chosen, placement = problem
    sent = dispatch(chosen, SlotTable(placement, 0))
    slots = placement.experts[0].tolist()
    seen = [0] * placement.num_experts
    expected = []
    for expert in chosen.reshape(-1).tolist():
        homes = [slot for slot, held in enumerate(slots) if held == expert]
        expected.append(homes[seen[expert] % len(homes)])
        seen[expert] += 1
    received = dict(zip(sent.order.tolist(), sent.slot.tolist(), strict=True))
    assert [received[copy] for copy in range(len(expected))] == expected
    assert sent.counts.tolist() == np.bincount(expected, minlength=len(slots)).tolist()


def test_documented_shapes_hold():
    chosen = np.array([[0, 1], [1, 2], [2, 0]], dtype=np.int16)
    placement = place_contiguously(1, 3, 1)
    sent = dispatch(chosen, SlotTable(placement, 0))
    assert sent.order.shape == sent.slot.shape == (6,)
    assert sent.counts.shape == (3,)
    slots, known = load_experts(1, 3, checkpoint_seed=0, device="cpu")
    assert slots.weights[0].shape == (3, 3 * HIDDEN * INNER)
    assert np.array(known).shape == (1, 3)
    assert run_experts(torch.randn(3, HIDDEN), torch.ones(3, 2), sent, slots, 0).shape == (3, HIDDEN)


def naive_outputs(hidden, gate_weight, chosen, gate_up, down):
    """One token and one expert at a time."""
    out = torch.zeros_like(hidden)
    for token in range(len(hidden)):
        for choice, expert in enumerate(chosen[token].tolist()):
            gate, up = (hidden[token] @ gate_up[expert]).chunk(2)
            swiglu = gate / (1 + torch.exp(-gate)) * up
            out[token] += gate_weight[token, choice] * (swiglu @ down[expert])
    return out


def test_experts_compute_swiglu_of_the_chosen_experts():
    chosen = np.array([[0, 3], [3, 1], [2, 3], [1, 0], [3, 2]], dtype=np.int16)
    slots, _ = load_experts(1, 4, checkpoint_seed=1, device="cpu")
    torch.manual_seed(0)
    hidden, gate_weight = torch.randn(5, HIDDEN), torch.rand(5, 2)
    sent = dispatch(chosen, SlotTable(place_contiguously(1, 4, 2), 0))
    expected = naive_outputs(hidden, gate_weight, chosen, *slots.matrices(0))
    torch.testing.assert_close(
        run_experts(hidden, gate_weight, sent, slots, 0), expected, rtol=1e-5, atol=1e-6
    )


def test_experts_are_equal_bytes_for_equal_checkpoints_and_differ_between_layers():
    first, known = load_experts(2, 4, checkpoint_seed=5, device="cpu")
    again, known_again = load_experts(2, 4, checkpoint_seed=5, device="cpu")
    assert known == known_again
    assert torch.equal(first.weights[0], again.weights[0])
    assert len({checksum for layer in known for checksum in layer}) == 8


def two_gpus(*slots: int) -> Placement:
    return Placement(np.array([slots]), num_experts=4, num_gpus=2)


def test_a_shuffle_counts_only_slots_filled_from_another_gpu():
    old, new = two_gpus(0, 1, 2, 3), two_gpus(1, 3, 2, 0)
    move = plan_move(old, new)
    # GPU 0 keeps expert 1 (in another slot) and takes 3; GPU 1 keeps 2 and takes 0.
    assert move.moved.tolist() == [1, 1]
    assert move.moved_slots == 2
    assert move.source.tolist() == [[1, 3, 2, 0]]


def test_extra_slots_are_filled_from_the_same_gpu_where_it_holds_the_expert():
    move = plan_move(two_gpus(0, 1, 2, 3), two_gpus(0, 1, 1, 2, 3, 0))
    assert move.source.tolist() == [[0, 1, 1, 2, 3, 0]]
    assert move.moved.tolist() == [0, 1]


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(8)), st.lists(st.integers(0, 7), min_size=4, max_size=4))
def test_after_any_shuffle_every_slot_holds_its_expert_bit_for_bit(order, extra):
    slots, known = load_experts(1, 8, checkpoint_seed=2, device="cpu")
    old = place_contiguously(1, 8, 4)
    new = Placement(np.array([[*order, *extra]]), 8, 4)
    moved = move_weights(slots, plan_move(old, new))
    assert moved.checksums(0) == [known[0][expert] for expert in new.experts[0]]
    back = move_weights(moved, plan_move(new, old))
    assert back.checksums(0) == known[0]


def test_moved_slots_agree_with_a_count_slot_by_slot():
    rng = np.random.default_rng(0)
    old = Placement(np.stack([rng.permutation(16) for _ in range(3)]), 16, 4)
    new = Placement(np.stack([rng.permutation(np.r_[0:16, 0:8]) for _ in range(3)]), 16, 4)
    expected = 0
    for old_layer, new_layer in zip(old.experts.tolist(), new.experts.tolist(), strict=True):
        for slot, expert in enumerate(new_layer):
            gpu = slot // 6
            expected += expert not in old_layer[gpu * 4 : gpu * 4 + 4]
    assert plan_move(old, new).moved_slots == expected


@pytest.mark.parametrize("policy", ["global", "hierarchical"])
def test_a_first_shuffle_moves_most_slots_as_published(policy):
    """94–97% of the slots of a 58 × 256 plan for lognormal load come from another GPU."""
    from simworkers.moe.balancer import choose_balancer
    from simworkers.moe.placement import ClusterShape

    load = np.random.default_rng(0).lognormal(0, 1, (58, 256))
    old = Placement(np.tile(np.r_[0:256, 0:32], (58, 1)), 256, 32)
    new = choose_balancer(policy, ClusterShape(288, 32, 4, 8)).place(load, ClusterShape(288, 32, 4, 8))
    assert 0.935 < plan_move(old, new).moved_slots / new.experts.size < 0.975
