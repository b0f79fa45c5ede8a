import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.multimodal.audio import AUDIO_ENCODERS, encode_sound, encode_streamed, encode_whole
from simworkers.multimodal.profiles import STAGE_GPUS

ENCODER, H100 = AUDIO_ENCODERS["qwen2-audio"], STAGE_GPUS["h100"]


def test_the_layers_add_up_to_the_published_encoder():
    layers = 32 * (4 * 1280**2 + 2 * 1280 * 5120)
    assert layers == pytest.approx(ENCODER.weights, rel=0.02)


def test_a_token_stands_for_40_ms_and_30_seconds_make_1500_positions():
    assert ENCODER.tokens(1000) == 25
    assert ENCODER.positions(30_000) == 1500


def test_a_started_token_counts():
    assert ENCODER.tokens(1) == 1
    assert ENCODER.tokens(41) == 2


def test_whole_encoding_starts_after_the_last_sound():
    whole = encode_whole(ENCODER, H100, 10_000)
    assert whole.after_speech_us == whole.encode_us == encode_sound(ENCODER, H100, (10_000,)).us


def test_streaming_shortens_the_delay_after_speech_and_pays_with_gpu_time():
    whole, streamed = encode_whole(ENCODER, H100, 20_000), encode_streamed(ENCODER, H100, 20_000)
    assert streamed.after_speech_us < whole.after_speech_us
    assert streamed.encode_us > whole.encode_us


@given(sound_ms=st.integers(1, 120_000), chunk_tokens=st.integers(1, 100))
def test_chunking_changes_no_token_count(sound_ms, chunk_tokens):
    streamed = encode_streamed(ENCODER, H100, sound_ms, 40 * chunk_tokens)
    assert streamed.tokens == encode_whole(ENCODER, H100, sound_ms).tokens == ENCODER.tokens(sound_ms)


def test_time_from_the_first_sound_grows_with_the_sentence_and_the_delay_after_it_does_not():
    short, long = (encode_streamed(ENCODER, H100, sound_ms) for sound_ms in (4000, 40_000))
    assert long.ready_us - short.ready_us == 36_000_000
    assert long.after_speech_us == short.after_speech_us


def test_a_short_chunk_is_bound_by_reading_the_weights_and_a_batch_by_computing():
    assert encode_sound(ENCODER, H100, (400,)).binds == "hbm"
    assert encode_sound(ENCODER, H100, (30_000,) * 8).binds == "flops"


def test_shorter_chunks_leave_a_gpu_fewer_speakers():
    tiny, usual = (encode_streamed(ENCODER, H100, 20_000, chunk_ms) for chunk_ms in (200, 2000))
    assert tiny.streams_per_gpu < usual.streams_per_gpu
    assert tiny.real_time_factor > usual.real_time_factor


def test_no_sound_in_a_batch_takes_no_time():
    assert encode_sound(ENCODER, H100, ()).seconds == 0


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: encode_whole(ENCODER, H100, 0), "sound_ms"),
        (lambda: encode_streamed(ENCODER, H100, 1000, 50), "chunk_ms"),
        (lambda: encode_streamed(ENCODER, H100, 1000, 0), "chunk_ms"),
    ],
)
def test_bad_input_is_refused_by_the_name_of_its_field(call, field):
    with pytest.raises(ValueError, match=field):
        call()
