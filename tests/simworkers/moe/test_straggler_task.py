"""The task `predict-straggler` tells people apart."""

import statistics

import pytest

from tests.simworkers.moe.tasks import SEEDS, instance, measured, references, result

KIND = "predict-straggler"
# What the lesson and the docs of this lab name as max/mean of one domain alone or of the even mix.
LESSON_RATIOS = (1.03, 1.98, 2.0, 2.28, 2.6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in references(KIND, seed))
    assert naive == misconception == 0
    assert expert == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_busiest_expert_lies_on_another_gpu_than_the_straggler(seed):
    believed = references(KIND, seed)["misconception"].prediction["straggler_gpu"]
    assert believed != measured(KIND, seed, "expert")["straggler_gpu_before"]


@pytest.mark.slow
@pytest.mark.parametrize("ratio", LESSON_RATIOS)
def test_numbers_from_the_lesson_earn_next_to_nothing_whatever_gpu_goes_with_them(ratio):
    guesses = (
        result(KIND, seed, "naive", {"straggler_gpu": seed % 4, "max_over_mean": ratio}) for seed in SEEDS
    )
    assert statistics.fmean(guesses) <= 0.15


@pytest.mark.slow
def test_the_right_gpu_with_a_wild_ratio_earns_nothing():
    for seed in SEEDS:
        actual = measured(KIND, seed, "naive")
        wild = {
            "straggler_gpu": actual["straggler_gpu_before"],
            "max_over_mean": 1.25 * actual["max_over_mean_before_mean"],
        }
        assert result(KIND, seed, "naive", wild) == 0


def test_what_is_shown_names_neither_checkpoint_nor_seed():
    prepared = instance(KIND, 0)
    shown = repr(prepared.visible)
    assert str(prepared.seed) not in shown
    assert str(prepared.params["checkpoint_seed"]) not in shown
