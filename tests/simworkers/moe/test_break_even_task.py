"""The task `when-eplb-pays` tells people apart."""

import pytest

from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate
from tests.simworkers.moe.tasks import SEEDS, instance, measured, references, result, silent

KIND = "when-eplb-pays"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in references(KIND, seed))
    assert naive == misconception == 0
    assert expert == 1


@pytest.mark.slow
@pytest.mark.parametrize("told", [64, 256, 590, 780, 1024, 8192])
def test_a_number_from_the_lesson_hardly_ever_earns_anything(told):
    earned = [result(KIND, seed, "naive", {"break_even_tokens": told}) for seed in SEEDS]
    assert sum(earned) / len(earned) <= 0.2


@pytest.mark.slow
def test_the_published_example_never_earns_anything():
    assert {result(KIND, seed, "naive", {"break_even_tokens": 780}) for seed in SEEDS} == {0}


def test_runs_on_either_side_show_the_crossing():
    """What the cost model says of exact shares, real steps say as well, a little way off."""
    prepared = instance(KIND, 0)
    tokens = measured(KIND, 0, "expert")["break_even_tokens"]
    sides = {}
    for factor in (0.7, 1.5):
        scene = prepared.params | {"tokens_per_step": int(factor * tokens), "chunk_tokens": 1}
        sides[factor] = simulate(MoeParams.model_validate(scene), prepared.seed, silent).metrics["speedup"]
    assert sides[0.7] < 1 < sides[1.5]
