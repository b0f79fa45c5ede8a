import numpy as np
import pytest

from simworkers.hardware import GPUS, MODELS, Roofline
from simworkers.moe.cost import CostModel
from simworkers.moe.ledger import keep_ledger
from simworkers.moe.params import MoeParams

GPU, MODEL = GPUS["h100"], MODELS["deepseek-v3"]


def price(slot_tokens, sent, gpus=4, nodes=1, precision="bf16"):
    model = CostModel(GPU, MODEL, precision, gpus, nodes)
    return model.price(np.array([slot_tokens]), np.array([sent]))


def all_to_all(gpus, copies):
    return [[copies] * gpus for _ in range(gpus)]


def test_own_time_of_a_gpu_is_the_sum_over_its_slots():
    roofline = Roofline.of(GPU, MODEL, "bf16")
    cost = price([10, 9000, 0, 5], all_to_all(2, 0), gpus=2)
    expected = [roofline.expert_s(10) + roofline.expert_s(9000), roofline.expert_s(5)]
    assert cost.own_s[0] == pytest.approx(expected)


def test_reading_and_computing_are_told_apart():
    cost = price([1, 100_000], all_to_all(2, 0), gpus=2)
    assert cost.hbm_s[0].tolist() == pytest.approx([Roofline.of(GPU, MODEL, "bf16").read_s, 0])
    assert cost.flops_s[0, 0] == 0
    assert cost.flops_s[0, 1] > 0


def test_a_layer_lasts_as_long_as_its_slowest_gpu_and_the_others_wait():
    cost = price([1, 1, 1, 50_000], all_to_all(4, 0))
    assert cost.layer_s[0] == cost.own_s[0].max()
    assert (cost.own_s + cost.barrier_s)[0] == pytest.approx([cost.layer_s[0]] * 4)


def test_tokens_that_stay_on_their_gpu_use_no_link():
    cost = price([5, 5, 5, 5], np.diag([100, 100, 100, 100]).tolist())
    assert cost.links_s.tolist() == [[0, 0, 0, 0]]


def test_links_carry_the_hidden_state_there_and_back_by_the_busier_direction():
    sent = [[0, 30, 0, 0], [10, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    cost = price([5, 5, 5, 5], sent)
    there_and_back = 7168 * (2 + 2)
    assert cost.links_s[0].tolist() == pytest.approx([30 * there_and_back / 450e9] * 2 + [0, 0])


def test_between_nodes_the_network_is_nine_times_as_slow():
    sent = [[0, 8, 0, 0], [8, 0, 0, 0], [0, 0, 0, 8], [0, 0, 8, 0]]
    across = [[0, 0, 8, 0], [0, 0, 0, 8], [8, 0, 0, 0], [0, 8, 0, 0]]
    inside = price([5] * 4, sent, nodes=2).links_s
    between = price([5] * 4, across, nodes=2).links_s
    assert between == pytest.approx(inside * 9)


def test_the_ledger_adds_up_to_the_whole_memory():
    ledger = keep_ledger(MoeParams(), 2)
    parts = ledger.reserve + ledger.other_weights + ledger.experts + ledger.copies + ledger.kv_room
    assert parts == ledger.capacity == 80 * 10**9


def test_room_for_half_of_the_demand_means_half_of_the_time_is_waiting():
    room = keep_ledger(MoeParams(), 0).kv_room_tokens
    ledger = keep_ledger(MoeParams(resident_kv_tokens_per_gpu=2 * room), 0)
    assert ledger.waiting_share() == pytest.approx(0.5, abs=1e-4)


def test_weights_that_do_not_fit_leave_no_room_and_all_time_waits():
    ledger = keep_ledger(MoeParams(num_experts=256), 0)
    assert ledger.left < 0
    assert ledger.kv_room == 0
    assert ledger.waiting_share() == 1.0
