"""The task `choose-encoder-workers` tells people apart: over 20 seeds the references separate by a stated gap."""

import functools
import statistics

import pytest

from simworkers.multimodal import encoder_workers_task
from simworkers.multimodal.cluster import cluster_params
from simworkers.multimodal.encoder_workers_task import output_rates, prepare
from simworkers.multimodal.params import MultimodalParams
from tests.simworkers.multimodal.tasks import KINDS, SEEDS, instance, measured, references, result, silent

KIND = "choose-encoder-workers"


@functools.cache
def rates_of(seed):
    """Encoder workers → output tokens per GPU-second, on the load of the graded run."""
    prepared = instance(KIND, seed)
    return output_rates(cluster_params(MultimodalParams.model_validate(prepared.params)), prepared.seed)


def reached(seed, count):
    """Of the way from the mean to the best, nothing below."""
    rates = rates_of(seed)
    mean, best = statistics.fmean(rates.values()), max(rates.values())
    return max((rates[count] - mean) / (best - mean), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in references(KIND, seed))
    assert naive == 0
    assert misconception <= 0.5
    assert expert >= 0.8
    assert expert - misconception >= 0.35


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_blind_guess_and_the_best_number_lie_a_fifth_apart(seed):
    metrics = measured(KIND, seed, "naive")
    assert metrics["cluster_best_tokens_per_gpu_s"] >= 1.2 * metrics["cluster_mean_tokens_per_gpu_s"]


@pytest.mark.slow
def test_some_loads_are_served_best_colocated_and_some_apart():
    best = [max(rates_of(seed).items(), key=lambda pair: pair[1])[0] for seed in SEEDS]
    assert set(best) == {0, 2, 4}
    assert all(best.count(count) >= 3 for count in set(best))


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 2, 4, 6])
def test_the_same_number_for_every_load_earns_little(count):
    assert statistics.fmean(reached(seed, count) for seed in SEEDS) <= 0.55


def test_the_bounds_of_a_run_are_those_that_the_instance_was_drawn_with():
    metrics, rates = measured(KIND, 0, "expert"), rates_of(0)
    assert metrics["cluster_best_tokens_per_gpu_s"] == max(rates.values())
    assert metrics["cluster_mean_tokens_per_gpu_s"] == pytest.approx(statistics.fmean(rates.values()))
    chosen = references(KIND, 0)["expert"].params["cluster_encoder_workers"]
    assert metrics["cluster_tokens_per_gpu_s"] == rates[chosen]


@pytest.mark.parametrize(("share", "requests"), [(100, 5), (0, 64)])
def test_the_decode_step_that_is_shown_holds_requests_of_the_mix_and_no_more_than_fit(share, requests):
    load = {
        "cluster_images": 8,
        "cluster_image_percent": share,
        "image_width_px": 1600,
        "image_height_px": 900,
    }
    params = MultimodalParams(**load, cluster_tensor_parallel=1, cluster_encoder_workers=0)
    visible = encoder_workers_task._describe(params)
    prompt = share // 100 * 8 * visible["image_tokens"] + 128
    assert visible["decode_step_context_tokens"] == prompt + 128
    assert visible["decode_step_requests"] == min(64, visible["kv_room_tokens"] // (prompt + 256)) == requests


def test_pictures_make_the_prefill_that_is_shown_dearer():
    visible = instance(KIND, 0).visible
    assert visible["prefill_us_with_pictures"] > visible["prefill_us_without_pictures"]


def test_only_the_number_of_encoder_workers_is_open():
    assert KINDS[KIND].open_parameters == ("cluster_encoder_workers",)


def test_an_instance_is_drawn_from_its_seed_alone_and_what_is_shown_does_not_name_it():
    assert prepare(0, silent) == instance(KIND, 0)
    assert instance(KIND, 0).params != instance(KIND, 1).params
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)


def test_a_load_at_which_all_numbers_are_alike_is_drawn_again(monkeypatch):
    monkeypatch.setattr(encoder_workers_task, "LEAST_DISTANCE", 100.0)
    monkeypatch.setattr(encoder_workers_task, "DRAWS", 2)
    with pytest.raises(AssertionError, match="none of 2 draws"):
        prepare(0, silent)
