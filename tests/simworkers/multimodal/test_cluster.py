"""The cluster of a run: what it refuses before it starts, and how long it waits for requests."""

import pytest

from simworkers.jobs import InvalidParameter
from simworkers.multimodal import simulate as simulation
from simworkers.multimodal.cluster import check_cluster, cluster_params
from simworkers.multimodal.disaggregation import simulate_cluster
from tests.simworkers.multimodal.runs import params_of

TOO_LARGE = {
    "image_width_px": 3840,
    "image_height_px": 2160,
    "cluster_images": 16,
    "cluster_tensor_parallel": 1,
    "cluster_encoder_workers": 0,
}


def test_pictures_that_no_copy_of_the_model_has_kv_room_for_are_refused_by_their_field():
    with pytest.raises(InvalidParameter, match=r"^cluster_images: 16 pictures of 3840 × 2160 px"):
        check_cluster(params_of(**TOO_LARGE))


def test_they_are_refused_before_the_engine_works(monkeypatch):
    monkeypatch.setattr(simulation, "play", lambda *_: pytest.fail("the engine was started"))
    with pytest.raises(InvalidParameter, match=r"^cluster_images:"):
        simulation.simulate(params_of(**TOO_LARGE), 1, lambda _done, _total: None)


def test_more_gpus_a_copy_have_room_for_them():
    check_cluster(params_of(**TOO_LARGE | {"cluster_tensor_parallel": 2}))


def test_at_the_lowest_rate_every_request_is_sent_and_answered_and_none_counts_the_horizon():
    found = simulate_cluster(cluster_params(params_of(cluster_requests_per_s=0.1)), 1)
    assert (found.requests, found.unfinished) == (120, 0)
    assert found.ttft_p99_us < 2_000_000
