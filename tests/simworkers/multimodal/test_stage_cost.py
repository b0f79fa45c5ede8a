import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.multimodal.profiles import STAGE_GPUS, VISION_LANGUAGE_MODELS
from simworkers.multimodal.stage_cost import (
    Placement,
    StageTime,
    causal_pairs,
    decode_step,
    encode,
    encode_flops,
    prefill,
    preprocess,
    transfer,
    upload,
)

QWEN, INTERN = VISION_LANGUAGE_MODELS["qwen2-vl-7b"], VISION_LANGUAGE_MODELS["internvl2-26b"]
MOE = VISION_LANGUAGE_MODELS["qwen3-vl-235b-a22b"]
WINDOWED = VISION_LANGUAGE_MODELS["qwen2.5-vl-7b"].encoder
H100, H20 = STAGE_GPUS["h100"], STAGE_GPUS["h20"]
ONE = Placement(H100)


def test_an_upload_takes_its_bytes_over_the_client_link():
    assert upload(500_000, 12.5e6).seconds == pytest.approx(0.04)
    assert upload(500_000, 12.5e6).binds == "links"


def test_preprocessing_grows_with_megapixels_and_binds_the_host():
    assert preprocess(1920 * 1080, 25_000).us == 51_840
    assert preprocess(1).binds == "host"


def test_whole_microseconds_round_up():
    assert StageTime(hbm_s=1.2e-6).us == 2


def test_hbm_and_flops_overlap_while_links_and_host_add():
    assert StageTime(hbm_s=3.0, flops_s=2.0, links_s=1.0, host_s=0.5).seconds == 4.5


def test_equal_resources_bind_in_a_fixed_order_and_no_work_binds_nothing():
    assert StageTime(hbm_s=1.0, flops_s=1.0).binds == "hbm"
    assert StageTime().binds == "none"


def test_one_small_image_reads_the_encoder_and_a_large_one_computes():
    assert encode(QWEN.encoder, H100, (16,)).binds == "hbm"
    assert encode(QWEN.encoder, H100, (10_764,)).binds == "flops"


def test_a_batch_of_small_images_reads_the_weights_once():
    alone = encode(QWEN.encoder, H100, (64,)).seconds
    assert encode(QWEN.encoder, H100, (64,) * 4).seconds == alone


def test_attention_of_one_large_image_costs_more_than_that_of_its_tiles():
    assert encode_flops(QWEN.encoder, (4096,)) > encode_flops(QWEN.encoder, (1024,) * 4)


def test_doubling_the_patches_quadruples_the_attention():
    def attention(patches):
        return encode_flops(QWEN.encoder, (patches,)) - 2 * QWEN.encoder.weights * patches

    assert attention(2048) == 4 * attention(1024) == 4 * (4 * 1024 * 1024 * 32 * 1280)


def test_windows_cut_the_attention_of_all_layers_but_four():
    attention = encode_flops(WINDOWED, (1024,)) - 2 * WINDOWED.weights * 1024
    assert attention == 4 * 1024 * (4 * 1024 + 28 * 64) * 1280


def test_four_1080p_images_on_an_h20_take_what_was_published_within_a_tenth():
    """466 ms is the best of the published 492, 466 and 524 on two, four and eight H20s."""
    model = VISION_LANGUAGE_MODELS["qwen2.5-vl-72b"]
    sequences = model.image_sequences(1920, 1080) * 4
    assert encode(model.encoder, H20, sequences).seconds == pytest.approx(0.466, rel=0.1)


def test_embeddings_take_their_bytes_over_the_link_and_its_latency():
    assert transfer(QWEN, 1000, 50e9, latency_us=30).seconds == pytest.approx(1000 * 7168 / 50e9 + 30e-6)


def test_no_embeddings_mean_no_transfer_not_even_its_latency():
    assert transfer(QWEN, 0, 50e9, latency_us=30).seconds == 0


def test_a_decode_step_reads_all_weights_and_every_context():
    decoder = QWEN.decoder
    step = decode_step(decoder, ONE, [1000, 3000])
    assert step.hbm_s == (2 * decoder.weights + 4000 * 57_344) / 3.35e12
    assert step.binds == "hbm"


def test_a_long_prefill_is_bound_by_flops_and_a_short_one_by_reading_weights():
    assert prefill(QWEN.decoder, ONE, 4096).binds == "flops"
    assert prefill(QWEN.decoder, ONE, 32).binds == "hbm"


def test_a_prefill_of_one_token_costs_what_a_decode_step_over_its_context_does():
    assert prefill(QWEN.decoder, ONE, 1, 999).flops_s == decode_step(QWEN.decoder, ONE, [1000]).flops_s


def test_cached_tokens_make_a_prefill_cheaper_than_computing_them():
    warm, cold = prefill(QWEN.decoder, ONE, 100, 3900), prefill(QWEN.decoder, ONE, 4000)
    assert warm.seconds < cold.seconds / 10


@given(parts=st.lists(st.integers(1, 500), min_size=1, max_size=8))
def test_chunks_of_a_prefill_have_the_pairs_of_the_whole(parts):
    seen = pairs = 0
    for part in parts:
        pairs += causal_pairs(part, seen)
        seen += part
    assert pairs == causal_pairs(seen, 0)


@given(tokens=st.integers(1, 20_000), cached=st.integers(0, 20_000))
def test_more_work_never_takes_less_time(tokens, cached):
    assert prefill(QWEN.decoder, ONE, tokens + 1, cached).us >= prefill(QWEN.decoder, ONE, tokens, cached).us
    assert prefill(QWEN.decoder, ONE, tokens, cached + 1).us >= prefill(QWEN.decoder, ONE, tokens, cached).us


def test_tensor_parallelism_divides_reading_and_computing_and_pays_with_links():
    one, four = (prefill(INTERN.decoder, Placement(H100, ranks), 2048) for ranks in (1, 4))
    assert four.flops_s == pytest.approx(one.flops_s / 4)
    assert four.hbm_s == pytest.approx(one.hbm_s / 4)
    assert one.links_s == 0 < four.links_s


def test_fp8_weights_multiply_at_the_fp8_peak_and_attention_stays_in_bf16():
    decoder, new = MOE.decoder, 4096
    attention_flops = 4 * causal_pairs(new, 0) * 94 * 64 * 128
    expected = 2 * decoder.active_weights * new / 1979e12 + attention_flops / 989e12
    assert prefill(decoder, ONE, new).flops_s == pytest.approx(expected)


def test_a_pass_without_tokens_reads_nothing():
    assert decode_step(QWEN.decoder, ONE, []).seconds == 0
    assert encode(QWEN.encoder, H100, ()).seconds == 0


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: upload(-1, 1.0), "size_bytes"),
        (lambda: upload(1, 0.0), "client_bytes_per_s"),
        (lambda: preprocess(-1), "pixels"),
        (lambda: encode(QWEN.encoder, H100, (0,)), "sequences"),
        (lambda: transfer(QWEN, 1, float("nan")), "link_bytes_per_s"),
        (lambda: prefill(QWEN.decoder, ONE, -1), "new_tokens"),
        (lambda: decode_step(QWEN.decoder, ONE, [0]), "contexts"),
        (lambda: Placement(H100, 0), "tensor_parallel"),
        (lambda: prefill(MOE.decoder, Placement(STAGE_GPUS["a100"]), 1), "gpu"),
    ],
)
def test_bad_input_is_refused_by_the_name_of_its_field(call, field):
    with pytest.raises(ValueError, match=field):
        call()
