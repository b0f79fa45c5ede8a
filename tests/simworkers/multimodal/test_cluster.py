"""The cluster of a run: what it refuses before it starts, and how long it waits for requests."""

from dataclasses import replace
from itertools import product

import pytest

from simworkers.jobs import InvalidParameter
from simworkers.multimodal import simulate as simulation
from simworkers.multimodal.cluster import check_cluster, cluster_params
from simworkers.multimodal.disaggregation import simulate_cluster
from simworkers.multimodal.profiles import STAGE_GPUS
from tests.simworkers.multimodal.runs import params_of

LARGEST = {
    "image_width_px": 4096,
    "image_height_px": 4096,
    "cluster_images": 16,
    "cluster_tensor_parallel": 1,
    "cluster_encoder_workers": 0,
}


@pytest.fixture
def h100_with_60_gb(monkeypatch):
    """A GPU that holds the default model, and few KV tokens beside it."""
    monkeypatch.setitem(STAGE_GPUS, "h100", replace(STAGE_GPUS["h100"], hbm_bytes=60 * 10**9))


@pytest.mark.usefixtures("h100_with_60_gb")
def test_pictures_that_no_copy_of_the_model_has_kv_room_for_are_refused_by_their_field():
    with pytest.raises(InvalidParameter, match=r"^cluster_images: 16 pictures of 4096 × 4096 px"):
        check_cluster(params_of(**LARGEST))


@pytest.mark.usefixtures("h100_with_60_gb")
def test_they_are_refused_before_the_engine_works(monkeypatch):
    monkeypatch.setattr(simulation, "play", lambda *_: pytest.fail("the engine was started"))
    with pytest.raises(InvalidParameter, match=r"^cluster_images:"):
        simulation.simulate(params_of(**LARGEST), 1, lambda _done, _total: None)


@pytest.mark.usefixtures("h100_with_60_gb")
def test_more_gpus_a_copy_have_room_for_them():
    check_cluster(params_of(**LARGEST | {"cluster_tensor_parallel": 2}))


@pytest.mark.parametrize(
    ("model", "gpu"),
    list(
        product(
            ("qwen2-vl-7b", "qwen2.5-vl-7b", "qwen3-vl-4b", "internvl2-26b"),
            ("h100", "h200", "b200", "a100", "h20"),
        )
    ),
)
def test_every_gpu_of_the_lab_holds_the_largest_request_of_every_model(model, gpu):
    check_cluster(params_of(**LARGEST, model=model, gpu=gpu))


def test_at_the_lowest_rate_every_request_is_sent_and_answered_and_none_counts_the_horizon():
    found = simulate_cluster(cluster_params(params_of(cluster_requests_per_s=0.1)), 1)
    assert (found.requests, found.unfinished) == (120, 0)
    assert found.ttft_p99_us < 2_000_000
