import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.multimodal.output_stages import (
    DIFFUSION_MODELS,
    TALKER,
    VOCODER,
    _silences,
    paint,
    speak,
    vocode,
)
from simworkers.multimodal.profiles import STAGE_GPUS
from simworkers.multimodal.stage_cost import Placement, decode_step

H100, FLUX = STAGE_GPUS["h100"], DIFFUSION_MODELS["flux.1-dev"]
BLOCK = VOCODER.block_tokens


def test_a_block_of_24_frames_is_12_codec_tokens_and_240_ms_of_sound():
    assert (VOCODER.block_tokens, VOCODER.block_us) == (12, 240_000)


def test_the_talkers_matrices_add_up_to_its_weights():
    # Its text embeddings are as wide as the thinker: one table of 3584 and the projection down to 896.
    tables = 8448 * (3584 + 896) + 3584 * 896
    assert TALKER.attention_weights + TALKER.ffn_weights + tables == pytest.approx(TALKER.weights, rel=0.01)


def test_a_frame_becomes_240_samples():
    assert VOCODER.generator_stages()[-1][1] == 240


def test_first_audio_waits_for_a_block_and_the_block_ahead_of_it_and_then_for_the_vocoder():
    spoken = speak(H100, 40 * BLOCK)
    steps = [decode_step(TALKER, Placement(H100), [256 + k + 1]).us for k in range(2 * BLOCK)]
    assert spoken.first_codec_token_us == steps[0]
    assert spoken.first_audio_us == sum(steps) + vocode(VOCODER, H100, 1).us


def test_the_first_codec_token_says_little_about_the_first_audio():
    """A larger chunk moves the first audio and leaves TTFT as it was."""
    small, large = speak(H100, 40 * BLOCK), speak(H100, 40 * BLOCK, blocks_per_chunk=8)
    assert small.first_codec_token_us == large.first_codec_token_us
    assert small.first_audio_us < large.first_audio_us


def test_without_streaming_the_first_audio_comes_with_the_last():
    spoken = speak(H100, 40 * BLOCK, blocks_per_chunk=40)
    assert spoken.first_audio_us == spoken.last_audio_us


def test_an_answer_shorter_than_a_block_needs_no_block_ahead():
    spoken = speak(H100, 3)
    steps_us = sum(decode_step(TALKER, Placement(H100), [256 + k + 1]).us for k in range(3))
    assert spoken.first_audio_us == steps_us + vocode(VOCODER, H100, 1).us


def test_one_speaker_is_faster_than_real_time_and_hears_no_gap():
    spoken = speak(H100, 40 * BLOCK)
    assert spoken.real_time_factor < 1
    assert (spoken.stalls, spoken.stalled_us) == (0, 0)


def test_too_many_speakers_push_the_factor_above_one_and_playing_stalls():
    streams = 2 * VOCODER.block_us // vocode(VOCODER, H100, 1).us
    spoken = speak(H100, 40 * BLOCK, streams=streams)
    assert spoken.real_time_factor > 1
    assert spoken.stalls > 0
    assert spoken.stalled_us > 0


def test_larger_chunks_recompute_less_of_their_neighbours():
    assert vocode(VOCODER, H100, 8).us < 8 * vocode(VOCODER, H100, 1).us


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 50)), min_size=1, max_size=20))
def test_playing_time_and_silence_add_up_to_the_end(drawn):
    chunks, made = [], 0
    for gap, length in drawn:
        made += gap
        chunks.append((made, length))
    _, silent = _silences(chunks)
    end = chunks[0][0]
    for made, length in chunks:
        end = max(end, made) + length
    assert end == chunks[0][0] + silent + sum(length for _, length in chunks)


def test_an_image_takes_its_steps_times_one_step():
    few, many = (paint(FLUX, H100, width_px=1024, height_px=1024, steps=steps) for steps in (4, 28))
    assert few.step_us == many.step_us
    assert many.seconds_per_image == 28 * many.step_us / 1e6
    assert few.seconds_per_image == 4 * many.step_us / 1e6


@pytest.mark.parametrize(
    "streams", [1, 4]
)  # alone the talker is slower; with four, which it batches, the vocoder
def test_the_real_time_factor_is_that_of_the_slower_of_talker_and_vocoder(streams):
    spoken = speak(H100, 4 * BLOCK, streams=streams)
    steps = [decode_step(TALKER, Placement(H100), [256 + k + 1] * streams).us for k in range(4 * BLOCK)]
    vocoder_us = streams * 4 * vocode(VOCODER, H100, 1).us
    assert (sum(steps) > vocoder_us) == (streams == 1)
    assert spoken.real_time_factor == max(sum(steps), vocoder_us) / spoken.sound_us


def test_flux_has_12_billion_weights_and_a_token_meets_about_half_of_them():
    square = 3072**2
    double, single = 19 * 2 * (12 + 6) * square, 38 * (12 + 3) * square  # modulation: 6 a stream, 3
    assert double + single == pytest.approx(FLUX.weights, rel=0.01)
    assert FLUX.token_weights == 57 * 12 * square


def test_a_batch_gains_little_where_flops_bind_and_everyone_waits_for_all_of_it():
    one, four = (paint(FLUX, H100, width_px=1024, height_px=1024, steps=28, batch=n) for n in (1, 4))
    assert one.binds == "flops"
    assert four.images_per_gpu_second == pytest.approx(one.images_per_gpu_second, rel=0.01)
    assert four.seconds_per_image > 3.9 * one.seconds_per_image


def test_twice_the_side_takes_more_than_four_times_as_long():
    small, large = (paint(FLUX, H100, width_px=side, height_px=side, steps=28) for side in (1024, 2048))
    assert large.seconds_per_image > 4 * small.seconds_per_image


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: speak(H100, 0), "codec_tokens"),
        (lambda: speak(H100, 1, streams=0), "streams"),
        (lambda: speak(H100, 1, blocks_per_chunk=0), "blocks_per_chunk"),
        (lambda: vocode(VOCODER, H100, 0), "blocks"),
        (lambda: paint(FLUX, H100, width_px=1000, height_px=1024, steps=1), "width_px"),
        (lambda: paint(FLUX, H100, width_px=1024, height_px=0, steps=1), "height_px"),
        (lambda: paint(FLUX, H100, width_px=1024, height_px=1024, steps=0), "steps"),
        (lambda: paint(FLUX, H100, width_px=1024, height_px=1024, steps=1, batch=0), "batch"),
    ],
)
def test_bad_input_is_refused_by_the_name_of_its_field(call, field):
    with pytest.raises(ValueError, match=field):
        call()
