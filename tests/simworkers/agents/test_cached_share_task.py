"""The task `predict-cached-share` tells people apart."""

import statistics
from collections import Counter

import pytest

from simworkers.agents.prediction import CachedSharePrediction
from simworkers.agents.tasks import cached_share_task
from simworkers.agents.tasks.cached_share_task import PLANS, prepare
from simworkers.agents.tasks.kv_log import BLOCK_TOKENS, replay
from tests.simworkers.agents.tasks import KINDS, SEEDS, instance, measured, references, result, silent

KIND = "predict-cached-share"


def guess(seed, cached_tokens):
    whole = instance(KIND, seed).visible["watched"]["input_tokens"]
    return {"cached_tokens": cached_tokens, "new_tokens": whole - cached_tokens}


@pytest.mark.parametrize("seed", SEEDS)
def test_who_replays_the_log_foresees_the_turn_to_the_token(seed):
    assert result(KIND, seed, "expert") == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_who_expects_nothing_earns_nothing(seed):
    assert result(KIND, seed, "naive") == 0


def test_who_expects_all_that_was_sent_before_is_seldom_right():
    results = [result(KIND, seed, "misconception") for seed in SEEDS]
    assert statistics.fmean(results) <= 0.3
    assert set(results) == {0, 1}


@pytest.mark.parametrize("percent", [50, 80, 90, 95, 97, 98, 99])
def test_no_share_of_the_prompt_is_a_good_answer_everywhere(percent):
    results = []
    for seed in SEEDS:
        whole = instance(KIND, seed).visible["watched"]["input_tokens"]
        cached = percent * whole // 100 // BLOCK_TOKENS * BLOCK_TOKENS
        results.append(result(KIND, seed, "naive", guess(seed, cached)))
    assert statistics.fmean(results) <= 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_one_block_off_is_not_exact(seed):
    cached = references(KIND, seed)["expert"].prediction["cached_tokens"]
    assert result(KIND, seed, "expert", guess(seed, cached - BLOCK_TOKENS)) <= 0.6


def test_every_reason_occurs():
    reasons: Counter[str] = Counter()
    for seed in SEEDS:
        visible = instance(KIND, seed).visible
        watched = visible["watched"]
        head, *table = visible["log"]
        own = [
            row
            for row in (dict(zip(head, row, strict=True)) for row in table)
            if (row["session"], row["agent"]) == (watched["session"], 0)
        ]
        metrics = measured(KIND, seed, "naive")
        reasons["compacted"] += watched["repeats_tokens"] < own[-1]["input_tokens"] - BLOCK_TOKENS
        reasons["moved"] += replay(visible).replica != own[-1]["replica"]
        reasons["from host memory"] += metrics["host_tokens"] > 0
        reasons["all found"] += metrics["watched_cached_tokens"] == replay(visible).last_sent_tokens
    assert all(reasons[name] >= 2 for name in ("compacted", "moved", "from host memory", "all found"))
    assert sum(reasons.values()) < 2 * len(SEEDS)


def test_what_is_shown_holds_neither_the_answer_nor_a_seed_nor_the_replica():
    for seed in SEEDS:
        prepared = instance(KIND, seed)
        assert str(prepared.seed) not in repr(prepared.visible)
        assert not set(CachedSharePrediction.model_fields) & set(prepared.visible["watched"])
        assert "replica" not in prepared.visible["watched"]


def test_nothing_is_open():
    assert KINDS[KIND].open_parameters == ()


def test_an_instance_is_drawn_from_its_seed_alone():
    assert prepare(1, silent) == instance(KIND, 1)
    assert instance(KIND, 0).params != instance(KIND, 1).params


def test_plans_in_which_all_is_found_are_few():
    assert sum(plan in ("all_found", "host_holds_it") for plan in PLANS) <= len(PLANS) / 4


def test_scenes_whose_log_is_too_long_to_read_are_drawn_again(monkeypatch):
    monkeypatch.setattr(cached_share_task, "LONGEST_LOG", 0)
    monkeypatch.setattr(cached_share_task, "DRAWS", 3)
    with pytest.raises(AssertionError, match="none of 3 draws"):
        prepare(0, silent)
