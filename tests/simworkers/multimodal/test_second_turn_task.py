"""The task `predict-turn-2` tells people apart."""

import statistics
from collections import Counter

import pytest

from simworkers.multimodal.prediction import SecondTurnPrediction
from simworkers.multimodal.second_turn_task import PLANS, foresee
from tests.simworkers.multimodal.tasks import SEEDS, instance, measured, references, result

KIND = "predict-turn-2"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_who_follows_the_picture_through_the_caches_foresees_the_second_turn(seed):
    assert result(KIND, seed, "expert") == 1


@pytest.mark.slow
def test_the_references_separate_by_the_stated_gap():
    means = {who: statistics.fmean(result(KIND, seed, who) for seed in SEEDS) for who in references(KIND, 0)}
    assert means["naive"] <= 0.1
    assert means["misconception"] <= 0.25
    assert means["expert"] == 1


@pytest.mark.slow
def test_no_fixed_guess_earns_more_than_a_seventh_of_the_points():
    """The guesses are all truths of the twenty instances, which no other guess can beat by much."""
    truths = [references(KIND, seed)["expert"].prediction for seed in SEEDS]
    means = [statistics.fmean(result(KIND, seed, "naive", guess) for seed in SEEDS) for guess in truths]
    assert max(means) < 0.15


@pytest.mark.slow
def test_scenes_in_which_everything_or_nothing_is_found_are_few():
    stages: Counter[str] = Counter()
    for seed in SEEDS:
        row = measured(KIND, seed, "naive")
        again = row["preprocess_again_turn2"] + row["encode_again_turn2"]
        stages["all"] += (
            again == 0 and row["cached_tokens_turn2"] == row["turns"][_second(row)]["reusable_tokens"]
        )
        stages["nothing"] += again == 2 and row["cached_tokens_turn2"] == 0
    assert stages["all"] <= len(SEEDS) / 4
    assert stages["nothing"] <= len(SEEDS) / 4


def _second(row):
    return next(n for n, turn in enumerate(row["turns"]) if (turn["user"], turn["turn"]) == (0, 2))


@pytest.mark.slow
def test_every_stage_has_scenes_in_which_it_works_again_and_scenes_in_which_it_does_not():
    for name in ("preprocess_again", "encode_again"):
        truths = [foresee(instance(KIND, seed).visible)[name] for seed in SEEDS]
        assert 4 <= sum(truths) <= 16


@pytest.mark.slow
def test_tokens_off_by_one_block_earn_less_than_half():
    for seed in SEEDS:
        right = references(KIND, seed)["expert"].prediction
        off = right | {
            "cached_tokens": right["cached_tokens"] + 16,
            "new_tokens": max(right["new_tokens"] - 16, 1),
        }
        assert result(KIND, seed, "naive", off) <= 0.3


@pytest.mark.slow
def test_what_is_shown_holds_neither_the_answer_nor_a_seed():
    for seed in SEEDS:
        prepared = instance(KIND, seed)
        assert str(prepared.seed) not in repr(prepared.visible)
        assert not set(SecondTurnPrediction.model_fields) & set(prepared.visible)


def test_plans_in_which_a_client_saves_again_are_not_the_only_ones():
    assert sum(plan.startswith(("resave", "other_pixels")) for plan in PLANS) < len(PLANS) / 2
