"""Runs of the whole lab on small parameters: numbers, invariants, and the faults that invariants exist for."""

import dataclasses

import numpy as np
import pytest

from simworkers.moe import engine as engine_module
from simworkers.moe.checks import NAMES, Checks
from simworkers.moe.metrics import MoeMetrics
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import Placement
from simworkers.moe.rehearsal import count_experts, rehearse
from simworkers.moe.simulate import simulate
from tests.simworkers.tasks import silent

SMALL = {"tokens_per_step": 512, "chunk_tokens": 32, "num_layers": 2, "warmup_steps": 2, "num_steps": 4}
BALANCED = SMALL | {"eplb": True, "redundant_slots_per_gpu": 1, "interval_steps": 2}
CLUSTER = {"num_experts": 16, "num_gpus": 8, "num_nodes": 2}


def run(seed=0, **values):
    return simulate(MoeParams(**values), seed, silent)


def states(report):
    return {name: found.state for name, found in report.invariants.items()}


def test_all_invariants_hold_in_a_balanced_run():
    assert states(run(**BALANCED)) == dict.fromkeys(NAMES, "held")


def test_equal_runs_give_equal_reports_but_for_provenance():
    first, second = run(**BALANCED), run(**BALANCED)
    assert first.model_dump(exclude={"provenance"}) == second.model_dump(exclude={"provenance"})


def test_another_seed_is_another_traffic():
    assert run(seed=0, **SMALL).metrics["expert_load"] != run(seed=1, **SMALL).metrics["expert_load"]


def test_documented_shapes_hold():
    metrics = MoeMetrics.model_validate(run(**BALANCED).metrics)
    layers, experts, gpus, slots, steps = 2, 8, 4, 12, 4
    assert np.shape(metrics.expert_load) == (layers, experts)
    assert np.shape(metrics.gpu_load) == np.shape(metrics.gpu_load_before) == (layers, gpus)
    assert np.shape(metrics.placement) == (layers, slots)
    assert np.shape(metrics.step_max_over_mean) == (steps,)
    assert np.shape(metrics.gpu_compute_us) == (gpus,)
    assert metrics.rebalance_steps == [0, 2]


def test_no_token_copy_is_lost_on_the_way_to_the_gpus():
    metrics = run(**BALANCED).metrics
    routed = 512 * 2 * 2 * 4  # tokens × top_k × layers × steps
    assert (
        metrics["routed_copies"]
        == np.sum(metrics["gpu_load"])
        == np.sum(metrics["gpu_load_before"])
        == routed
    )


def test_without_the_balancer_before_and_after_are_one():
    metrics = run(**SMALL).metrics
    assert metrics["max_over_mean_mean"] == metrics["max_over_mean_before_mean"]
    assert metrics["step_time_us"] == metrics["step_time_before_us"]
    assert metrics["rebalances"] == metrics["moved_slots"] == metrics["extra_hbm_bytes"] == 0


@pytest.mark.parametrize("seed", range(3))
def test_contiguous_placement_is_even_where_the_gate_was_trained(seed):
    params = {"num_steps": 4, "skew_percent": 0}
    assert run(seed, **params).metrics["max_over_mean_before_mean"] <= 1.15


@pytest.mark.parametrize("domain", ["code", "chat", "german"])
def test_contiguous_placement_has_a_straggler_on_a_single_domain(domain):
    params = {"num_steps": 4, "skew_percent": 100, "skew_domain": domain}
    assert run(**params).metrics["max_over_mean_before_mean"] >= 1.8


def test_copies_remove_most_of_the_imbalance_of_the_default_scene():
    params = {"num_steps": 8, "eplb": True, "redundant_slots_per_gpu": 2}
    assert run(**params).metrics["imbalance_removed_share"] > 0.9


def test_extra_copies_slow_a_decode_step_down():
    """The crossover: at 256 tokens weights are the bill, so another slot a GPU only adds reading."""
    decode = {"tokens_per_step": 256, "chunk_tokens": 1, "weight_precision": "bf16", "skew_percent": 100}
    prefill = decode | {"tokens_per_step": 8192}
    balance = {"num_steps": 4, "eplb": True, "redundant_slots_per_gpu": 1}
    assert run(**decode, **balance).metrics["speedup"] < 0.8
    assert run(**prefill, **balance).metrics["speedup"] > 1.3


def test_what_binds_adds_up_to_one_before_and_after():
    metrics = run(**BALANCED, resident_kv_tokens_per_gpu=1_500_000).metrics
    names = ("hbm_bandwidth", "flops", "links", "barrier_wait", "kv_capacity")
    for suffix in ("", "_before"):
        assert sum(metrics[f"share_{name}{suffix}"] for name in names) == pytest.approx(1.0)
    assert metrics["share_kv_capacity"] > metrics["share_kv_capacity_before"] > 0.5


def test_time_of_a_gpu_adds_up_to_the_step():
    metrics = run(**BALANCED).metrics
    parts = (metrics[f"gpu_{part}_us"] for part in ("compute", "links", "barrier"))
    assert np.sum(list(parts), axis=0) == pytest.approx([metrics["step_time_us"]] * 4)
    assert sum(metrics["gpu_barrier_us"]) == pytest.approx(metrics["barrier_wait_us"])


def test_balancedness_and_imbalance_agree_with_their_definitions():
    params = MoeParams(**SMALL)
    counts = count_experts(params, 0, silent)
    loads = rehearse(params, counts).before
    metrics = run(**SMALL).metrics
    ratios = [max(load) / (sum(load) / 4) for step in loads.tolist() for load in step]
    assert metrics["max_over_mean_before_mean"] == pytest.approx(sum(ratios) / len(ratios))
    assert metrics["max_over_mean_before_max"] == pytest.approx(max(ratios))
    assert metrics["balancedness_mean_before"] == pytest.approx(
        sum(1 / ratio for ratio in ratios) / len(ratios)
    )
    largest = sum(max(load) for step in loads.tolist() for load in step)
    assert metrics["balancedness_sum_before"] == pytest.approx(loads.sum() / 4 / largest)


@pytest.mark.parametrize("values", [BALANCED, BALANCED | CLUSTER, SMALL | {"eplb": True, "window_steps": 1}])
def test_a_rehearsal_counts_exactly_what_the_run_dispatches(values):
    params = MoeParams(**values)
    rehearsal = rehearse(params, count_experts(params, 5, silent))
    metrics = simulate(params, 5, silent).metrics
    assert rehearsal.chosen.sum(axis=0).tolist() == metrics["gpu_load"]
    assert rehearsal.reached() == metrics["max_over_mean_mean"]
    assert rehearsal.contiguous() == metrics["max_over_mean_before_mean"]


def test_progress_ends_with_every_step_done_and_never_goes_back():
    told = []
    simulate(MoeParams(**BALANCED), 0, lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {6}
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert set(done) == set(range(7))


def test_progress_comes_from_within_routing_and_from_every_slot():
    """A large step takes seconds: a sign of life must not wait for its end."""
    told = []
    params = MoeParams(**SMALL | {"tokens_per_step": 8192, "num_steps": 1, "warmup_steps": 1})
    simulate(params, 0, lambda done, total: told.append(done))
    distinct_positions = 8192  # at least; routed in blocks of 2,048 for each of two layers
    assert told.count(0) >= distinct_positions // 2048 * 2 + 2 * 8
    assert told.count(1) >= 2 * 8  # layers × slots


def test_the_window_forgets_older_steps():
    """Placement from one step of load differs from that of all recorded steps."""
    one, all_ = (
        run(**SMALL | {"eplb": True, "warmup_steps": 4, "window_steps": window}) for window in (1, 64)
    )
    assert one.metrics["placement"] != all_.metrics["placement"]


def test_too_many_copies_break_budget_and_memory_by_setting():
    heavy = {"model_profile": "mixtral-8x7b", "weight_precision": "bf16", "hbm_budget_gb": 1.5}
    report = run(**BALANCED | heavy | {"redundant_slots_per_gpu": 8})
    assert report.invariants["copies_within_budget"].state == "broken_by_setting"
    assert report.metrics["within_budget"] == 0
    assert report.invariants["fits_in_hbm"].state == "broken_by_setting"
    assert "GPU lacks" in report.invariants["fits_in_hbm"].first_event
    assert report.metrics["served_tokens_per_second"] == 0


def test_a_budget_met_to_the_byte_is_kept():
    exact_gb = 4 * 58 * 44_040_192 / 1e9
    assert run(**BALANCED | {"hbm_budget_gb": exact_gb}).metrics["within_budget"] == 1


def test_global_balancing_over_nodes_splits_groups_by_setting_and_hierarchical_does_not():
    clustered = BALANCED | CLUSTER
    assert states(run(**clustered, eplb_policy="global"))["groups_stay_in_node"] == "broken_by_setting"
    assert states(run(**clustered, eplb_policy="hierarchical"))["groups_stay_in_node"] == "held"


# Each invariant is broken on purpose: the run must see it and name the first event.


def expect_broken(name, event, **values):
    found = run(**values).invariants[name]
    assert found.state == "broken"
    assert event in found.first_event


def test_a_dropped_token_is_seen(monkeypatch):
    def dropping(experts, table):
        sent = real(experts, table)
        counts = sent.counts.copy()
        counts[sent.slot[0]] -= 1
        return dataclasses.replace(sent, order=sent.order[1:], slot=sent.slot[1:], counts=counts)

    real = engine_module.dispatch
    monkeypatch.setattr(engine_module, "dispatch", dropping)
    expect_broken("tokens_conserved", "step 0 layer 0: 1023 of 1024 copies arrived", **SMALL)


def test_a_token_at_the_wrong_expert_is_seen(monkeypatch):
    def misrouting(experts, table):
        sent = real(experts, table)
        slot = np.roll(sent.slot, 1)
        return dataclasses.replace(sent, slot=np.sort(slot), order=np.roll(sent.order, 1))

    real = engine_module.dispatch
    monkeypatch.setattr(engine_module, "dispatch", misrouting)
    expect_broken("tokens_conserved", "received a token of another expert", **SMALL)


def test_an_expert_without_a_slot_is_seen(monkeypatch):
    def forgetful(params, load):
        return Placement(np.tile(np.arange(12) % 7, (len(load), 1)), load.shape[1], params.num_gpus)

    monkeypatch.setattr(engine_module, "plan", forgetful)
    expect_broken("experts_placed", "rebalance before step 2: layer 0 has no slot for expert 7", **BALANCED)


def test_unevenly_used_copies_are_seen(monkeypatch):
    def lazy(experts, table):
        table.copies = np.ones_like(table.copies)  # the first copy takes all tokens
        return real(experts, table)

    real = engine_module.dispatch
    monkeypatch.setattr(engine_module, "dispatch", lazy)
    expect_broken("copies_share_evenly", "step 2 layer 0: expert", **BALANCED)


def corrupting(real):
    def move(slots, plan):
        moved = real(slots, plan)
        moved.weights[1][3, 17] += 0.25
        return moved

    return move


def test_one_corrupted_slot_is_seen_by_its_checksum(monkeypatch):
    monkeypatch.setattr(engine_module, "move_weights", corrupting(engine_module.move_weights))
    expect_broken("slot_weights_match", "rebalance before step 2: layer 1 slot 3 does not hold", **BALANCED)


def test_one_corrupted_slot_changes_the_outputs_across_the_shuffle(monkeypatch):
    monkeypatch.setattr(engine_module, "move_weights", corrupting(engine_module.move_weights))
    expect_broken("outputs_equal_across_shuffle", "outputs differ by", **BALANCED)


def test_weights_left_behind_in_a_move_are_seen(monkeypatch):
    real = engine_module.plan_move

    def stale(old, new):
        move = real(old, new)
        return dataclasses.replace(move, source=np.roll(move.source, 1, axis=1))

    monkeypatch.setattr(engine_module, "plan_move", stale)
    expect_broken("slot_weights_match", "does not hold expert", **BALANCED)


def test_a_later_setting_does_not_hide_a_bug_and_the_first_event_stands():
    checks = Checks()
    checks.break_by_setting("groups_stay_in_node", "first")
    checks.break_("groups_stay_in_node", "a bug")
    checks.break_by_setting("groups_stay_in_node", "later")
    checks.break_("groups_stay_in_node", "another bug")
    found = checks.invariants["groups_stay_in_node"]
    assert (found.state, found.first_event) == ("broken", "a bug")
