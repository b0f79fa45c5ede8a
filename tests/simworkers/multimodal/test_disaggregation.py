import pytest

from simworkers.multimodal.arrivals import Arrival, draw_arrivals
from simworkers.multimodal.cluster_metrics import nearest_rank
from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.multimodal.cluster_workers import Prices
from simworkers.multimodal.disaggregation import (
    PUBLISHED,
    Cluster,
    choose_encoder_workers,
    simulate_cluster,
)
from simworkers.multimodal.stage_cost import decode_step, encode, prefill, preprocess, transfer, upload

DEFAULT = ClusterParams()
EVERYTHING_AT_ONCE = DEFAULT.with_changes(requests_per_s=100)
EIGHT_IMAGES = DEFAULT.with_changes(images_min=8, images_max=8, requests_per_s=0.25, num_requests=40)
FEW_IMAGES = DEFAULT.with_changes(
    requests_per_s=1000, num_requests=800, images_min=1, images_max=1, image_share_percent=2
)
SEED = 4


def apart(params, encoders=4):
    return simulate_cluster(params.with_changes(encoder_workers=encoders), SEED)


def colocated(params):
    return simulate_cluster(params, SEED)


def alone(params, images, output_tokens=3, cached_images=0):
    """One request by itself; its job once it is done."""
    cluster = Cluster(params, [Arrival(0, 1000, 100, output_tokens, images, cached_images)])
    cluster.run()
    return cluster.jobs[0]


def before_language_us(params, images):
    uploaded = upload(images * params.image_bytes, params.client_bytes_per_s).us
    return uploaded + preprocess(params.image_width_px * params.image_height_px).us


def test_a_lone_text_waits_for_its_prefill_alone_and_then_a_step_a_token():
    prices, job = Prices(DEFAULT), alone(DEFAULT, 0)
    decoder, placement = prices.model.decoder, prices.placement
    assert job.first_token_us == 1000 + prefill(decoder, placement, 100).us
    steps_us = sum(decode_step(decoder, placement, [context]).us for context in (101, 102))
    assert job.finished_us - job.first_token_us == steps_us


def test_a_lone_image_passes_every_stage_in_turn_when_colocated():
    prices, job = Prices(DEFAULT), alone(DEFAULT, 1)
    prompt = prices.image_tokens + 100  # fits one step
    language_us = (
        encode(prices.model.encoder, prices.gpu, prices.sequences).us
        + prefill(prices.model.decoder, prices.placement, prompt).us
    )
    assert job.first_token_us == 1000 + before_language_us(DEFAULT, 1) + language_us


def test_a_lone_image_travels_over_the_link_as_well_when_encoders_stand_apart():
    params = DEFAULT.with_changes(encoder_workers=4)
    prices, job = Prices(params), alone(params, 1)
    link_us = transfer(prices.model, prices.image_tokens, params.link_bytes_per_s).us + params.link_latency_us
    together = alone(DEFAULT, 1)
    assert job.first_token_us == together.first_token_us + link_us


def test_images_of_one_request_are_encoded_side_by_side():
    params = DEFAULT.with_changes(encoder_workers=4)
    prices = Prices(params)
    one, four = (alone(params, images) for images in (1, 4))
    ready_us = before_language_us(params, 4) - before_language_us(params, 1)
    assert four.queued_us - one.queued_us == ready_us < prices.encode_us(1)


def test_cached_images_skip_the_encoder_in_both_set_ups():
    for params in (DEFAULT, DEFAULT.with_changes(encoder_workers=4)):
        saved_us = alone(params, 1).first_token_us - alone(params, 1, cached_images=1).first_token_us
        assert saved_us == Prices(params).encode_us(1)


def test_a_cache_that_holds_every_image_leaves_nothing_to_encode():
    held = DEFAULT.with_changes(encoder_hit_percent=100)
    assert colocated(held).encode_share == apart(held).encode_share == 0


def test_the_same_seed_gives_the_same_report_and_another_seed_another():
    assert colocated(DEFAULT) == colocated(DEFAULT)
    assert colocated(DEFAULT) != simulate_cluster(DEFAULT, SEED + 1)


def test_golden_integers_are_the_same_on_every_machine():
    report = apart(DEFAULT)
    assert (report.window_us, report.ttft_p50_us, report.ttft_p99_us) == (48_899_744, 497_451, 1_007_512)


def test_every_request_is_answered_in_full():
    report = apart(DEFAULT)
    asked = sum(arrival.output_tokens for arrival in draw_arrivals(DEFAULT, SEED))
    assert (report.unfinished, report.requests, report.output_tokens) == (0, 200, asked)


def test_both_set_ups_answer_the_same_tokens():
    assert colocated(DEFAULT).output_tokens == apart(DEFAULT).output_tokens


def test_shares_of_gpu_time_and_idle_add_up_to_one():
    report = apart(DEFAULT)
    shares = report.encode_share + report.hbm_share + report.flops_share + report.links_share
    assert 0 < report.idle_share < 1
    assert shares + report.idle_share == pytest.approx(1)


def test_a_request_that_never_finishes_counts_the_horizon():
    report = colocated(EVERYTHING_AT_ONCE.with_changes(horizon_s=25))
    assert 0 < report.unfinished < report.requests
    assert report.ttft_p99_us == report.horizon_us == 25_000_000


def test_a_request_that_the_horizon_left_unsent_does_not_count():
    report = colocated(DEFAULT.with_changes(requests_per_s=0.5, horizon_s=60))
    drawn = draw_arrivals(DEFAULT.with_changes(requests_per_s=0.5), SEED)
    assert report.requests == sum(arrival.sent_us <= 60_000_000 for arrival in drawn) < 200
    assert report.ttft_p50_us < 2_000_000


def test_a_horizon_before_the_first_request_is_refused_by_its_field():
    with pytest.raises(ValueError, match="horizon_s"):
        colocated(DEFAULT.with_changes(requests_per_s=0.01, horizon_s=1))


def test_a_step_that_the_horizon_cuts_off_is_not_counted_as_busy():
    for params in (EVERYTHING_AT_ONCE, EVERYTHING_AT_ONCE.with_changes(encoder_workers=4)):
        report = colocated(params.with_changes(horizon_s=5))
        assert report.language_busy_share <= 1
        assert report.idle_share >= 0


def test_encoders_apart_gain_throughput_at_image_heavy_load_on_as_many_gpus():
    gain = (
        apart(EVERYTHING_AT_ONCE).output_tokens_per_gpu_second
        / colocated(EVERYTHING_AT_ONCE).output_tokens_per_gpu_second
    )
    assert gain > 1.05


def test_encoders_apart_answer_image_heavy_requests_sooner_at_low_rate():
    assert apart(EIGHT_IMAGES).ttft_mean_us < colocated(EIGHT_IMAGES).ttft_mean_us


def test_encoders_apart_steady_the_decode():
    assert apart(DEFAULT).tpot_p99_us < colocated(DEFAULT).tpot_p99_us


def test_encoders_apart_lose_throughput_where_images_are_few():
    assert (
        apart(FEW_IMAGES, 2).output_tokens_per_gpu_second < colocated(FEW_IMAGES).output_tokens_per_gpu_second
    )


def test_too_few_and_too_many_encoders_both_lose_to_the_right_number():
    by_count = choose_encoder_workers(EVERYTHING_AT_ONCE, SEED)
    best = by_count[4].output_tokens_per_gpu_second
    assert set(by_count) == {0, 2, 4, 6}
    assert all(by_count[count].output_tokens_per_gpu_second < best for count in (2, 6))


def test_sharing_images_out_inside_a_group_takes_the_throughput_gain_of_encoders_away():
    spread = colocated(EVERYTHING_AT_ONCE.with_changes(spread_images=True))
    assert spread.output_tokens_per_gpu_second > apart(EVERYTHING_AT_ONCE).output_tokens_per_gpu_second


def test_the_published_gap_in_ttft_comes_from_saturation_and_more_gpus():
    """At 0.2 requests a second both keep up; at 1.0 four colocated GPUs no longer do, six with two encoders do."""

    def gap(rate):
        four = ClusterParams.model_validate(PUBLISHED | {"num_gpus": 4, "requests_per_s": rate})
        six = four.with_changes(num_gpus=6, encoder_workers=2)
        return simulate_cluster(four, SEED).ttft_mean_us / simulate_cluster(six, SEED).ttft_mean_us

    assert 1 < gap(0.2) < gap(1.0) / 2


def test_progress_counts_finished_requests_and_changes_nothing():
    told = []
    slow = DEFAULT.with_changes(requests_per_s=0.5)
    report = simulate_cluster(slow, SEED, lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert {total for _, total in told} == {200}
    assert report == colocated(slow)


def test_what_progress_raises_ends_the_run():
    def cancel(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_cluster(DEFAULT.with_changes(requests_per_s=0.5), SEED, cancel)


def test_nearest_rank_takes_a_value_that_is_there():
    assert [nearest_rank([1, 2, 3, 4], percent) for percent in (1, 25, 26, 50, 99, 100)] == [1, 1, 2, 2, 4, 4]
