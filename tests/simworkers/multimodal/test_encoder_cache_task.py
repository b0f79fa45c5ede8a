"""The task `size-encoder-cache` tells people apart: over 20 seeds the references separate by a stated gap."""

import pytest

from simworkers.multimodal import encoder_cache_task
from simworkers.multimodal.encoder_cache_task import prepare
from simworkers.multimodal.telemetry import read_table
from tests.simworkers.multimodal.tasks import KINDS, SEEDS, instance, measured, references, result, silent

KIND = "size-encoder-cache"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in ("naive", "misconception", "expert"))
    assert naive == 0
    assert misconception <= 0.5
    assert expert >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_smallest_and_the_cheapest_cache_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "expert")
    assert metrics["encoder_cost_smallest_us"] >= 1.2 * metrics["encoder_cost_least_us"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_prefix_cache_never_covers_a_picture(seed):
    metrics = measured(KIND, seed, "expert")
    assert all(picture["encode"] != "not_needed" for row in metrics["turns"] for picture in row["pictures"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_real_run_with_the_smallest_cache_costs_what_the_bound_says_of_it(seed):
    metrics = measured(KIND, seed, "smallest")
    assert metrics["encoder_cost_us"] == metrics["encoder_cost_smallest_us"]
    assert result(KIND, seed, "smallest") == 0


@pytest.mark.slow
def test_no_number_of_pictures_a_user_fits_all_instances():
    """A rule without a look at the log: room for so many pictures of each user."""
    for pictures in (1, 2):
        fits = [
            references(KIND, seed)["expert"].params["encoder_cache_embeddings"]
            == pictures
            * instance(KIND, seed).params["users"]
            * instance(KIND, seed).params["max_image_tokens"]
            for seed in SEEDS
        ]
        assert sum(fits) <= 0.75 * len(SEEDS)


def test_the_log_that_is_shown_is_of_other_pictures_than_the_graded_run():
    shown = {row["picture"] for row in read_table(instance(KIND, 0).visible["log"])}
    graded = {
        picture["identifier"] for row in measured(KIND, 0, "expert")["turns"] for picture in row["pictures"]
    }
    assert not shown & graded
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)


def test_only_the_capacity_is_open():
    assert KINDS[KIND].open_parameters == ("encoder_cache_embeddings",)


def test_an_instance_is_drawn_from_its_seed_alone():
    assert prepare(1, silent) == instance(KIND, 1)
    assert instance(KIND, 0).params != instance(KIND, 1).params


def test_an_instance_in_which_memory_is_too_cheap_to_matter_is_drawn_again(monkeypatch):
    monkeypatch.setattr(encoder_cache_task, "EVERYTHING_REACHES", -1.0e9)
    monkeypatch.setattr(encoder_cache_task, "DRAWS", 1)
    with pytest.raises(AssertionError, match="none of 1 draws"):
        prepare(0, silent)
