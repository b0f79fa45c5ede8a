"""From which step size on copies pay: the fast search against pricing every step by itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.hardware import GPUS, MODELS
from simworkers.moe.balancer import GlobalBalancer
from simworkers.moe.break_even import LARGEST_STEP, break_even_tokens, step_seconds
from simworkers.moe.cost import CostModel
from simworkers.moe.placement import ClusterShape, place_contiguously

H100 = CostModel(GPUS["h100"], MODELS["deepseek-v3"], "bf16", 4, 1)
BEFORE = place_contiguously(1, 8, 4)


def placed(load, extra=1, gpus=4):
    shape = ClusterShape(load.shape[1] + extra * gpus, gpus)
    return GlobalBalancer().place(load, shape)


def by_hand(load, placement, tokens, top_k, cost):
    """Seconds of one step, written down slot by slot."""
    total = 0.0
    for layer, experts in enumerate(placement.experts):
        gpus = []
        for held in experts.reshape(cost.num_gpus, -1):
            copies = [
                tokens * top_k * load[layer, e] / load[layer].sum() / (experts == e).sum() for e in held
            ]
            slots = sum(max(cost.roofline.read_s, c * cost.roofline.token_s) for c in copies if c > 0)
            arriving = sum(copies) * (cost.num_gpus - 1) / cost.num_gpus
            leaving = tokens * top_k / cost.num_gpus - sum(copies) / cost.num_gpus
            gpus.append(slots + max(arriving, leaving) * cost.nvlink_s_per_copy)
        total += max(gpus)
    return total


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.integers(0, 1000), min_size=8, max_size=8).filter(any),
    st.integers(1, LARGEST_STEP),
    st.integers(0, 2),
)
def test_steps_are_priced_as_by_hand(row, tokens, extra):
    load = np.array([row])
    for placement in (BEFORE, placed(load, extra)):
        found = step_seconds(load, placement, H100, 2)[tokens - 1]
        assert found == pytest.approx(by_hand(load, placement, tokens, 2, H100), rel=1e-9)


def test_every_larger_step_pays_and_the_one_before_does_not():
    load = np.array([[400, 100, 100, 100, 100, 100, 50, 50], [300, 300, 100, 100, 50, 50, 50, 50]])
    before, after = place_contiguously(2, 8, 4), placed(load)
    found = break_even_tokens(load, before, after, H100, 2)
    priced = [step_seconds(load, placement, H100, 2) for placement in (before, after)]
    assert (priced[1][found - 1 :] < priced[0][found - 1 :]).all()
    assert priced[1][found - 2] >= priced[0][found - 2]


def test_the_published_example_breaks_even_near_780_tokens_without_links():
    """One expert with 37.8% of the copies: its tokens then take as long as reading two slots more."""
    load = np.array([[378, 89, 89, 89, 89, 89, 89, 88]])
    cost = CostModel(GPUS["h100"], MODELS["deepseek-v3"], "bf16", 4, 1)
    cost.nvlink_s_per_copy = 0.0
    after = placed(load)
    two, three = (step_seconds(load, each, cost, 2)[255] * 1e6 for each in (BEFORE, after))
    assert (round(two, 1), round(three, 1)) == (52.6, 78.9)
    assert break_even_tokens(load, BEFORE, after, cost, 2) == pytest.approx(780, abs=5)


def test_even_load_never_pays_for_copies():
    load = np.full((1, 8), 100)
    assert break_even_tokens(load, BEFORE, placed(load), H100, 2) == 0


def test_more_skew_pays_earlier_and_more_slots_pay_later():
    mild, strong = np.array([[25, 15, 10, 10, 10, 10, 10, 10]]), np.array([[45, 15, 10, 6, 6, 6, 6, 6]])
    early, late = (break_even_tokens(load, BEFORE, placed(load), H100, 2) for load in (strong, mild))
    assert early < late < break_even_tokens(mild, BEFORE, placed(mild, 2), H100, 2)


def test_an_expert_without_tokens_is_not_read():
    load = np.array([[10, 0, 0, 0, 0, 0, 0, 0]])
    assert step_seconds(load, BEFORE, H100, 1)[0] == pytest.approx(
        H100.roofline.read_s + 0.75 * H100.nvlink_s_per_copy
    )


def test_each_layer_gives_a_sign_of_life():
    ticks = []
    break_even_tokens(
        np.full((3, 8), 9),
        place_contiguously(3, 8, 4),
        place_contiguously(3, 8, 4),
        H100,
        2,
        lambda: ticks.append(1),
    )
    assert len(ticks) == 6
