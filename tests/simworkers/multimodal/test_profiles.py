import pytest

from simworkers.multimodal.profiles import STAGE_GPUS, VISION_LANGUAGE_MODELS

MODELS = VISION_LANGUAGE_MODELS


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_matrices_of_a_decoder_add_up_to_its_published_weights(name):
    decoder = MODELS[name].decoder
    layers = decoder.attention_weights + decoder.experts * decoder.ffn_weights
    assert layers + decoder.vocabulary_weights == pytest.approx(decoder.weights, rel=0.002)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_layers_of_an_encoder_are_most_of_its_weights_and_the_projector_the_rest(name):
    encoder, width = MODELS[name].encoder, MODELS[name].decoder.hidden
    merged = encoder.hidden * encoder.patches_per_token
    patches = 2 * 3 * encoder.patch_px**2 * encoder.hidden  # two frames a patch, as Qwen's have
    projectors = 4 if name.startswith("qwen3") else 1
    projector_hidden = width if name == "internvl2-26b" else merged
    projector = projectors * (merged * projector_hidden + projector_hidden * width)
    # 2% are biases, positions, norms; the 72B model's wider projector; and the padding of 3420 to 3456.
    assert encoder.layer_weights + patches + projector == pytest.approx(encoder.weights, rel=0.05)


def test_qwen2_vl_7b_keeps_56_kib_of_kv_a_token():
    assert MODELS["qwen2-vl-7b"].decoder.kv_bytes_per_token == 28 * 2 * 4 * 128 * 2 == 56 * 1024


def test_a_dense_decoder_multiplies_and_reads_all_its_weights():
    decoder = MODELS["qwen2-vl-7b"].decoder
    assert decoder.active_weights == decoder.weights
    assert decoder.read_bytes(1) == decoder.weights_bytes == 2 * decoder.weights


def test_the_235b_decoder_multiplies_a_token_with_22b_weights():
    assert MODELS["qwen3-vl-235b-a22b"].decoder.active_weights == pytest.approx(22.1e9, rel=0.01)


def test_one_token_reads_the_experts_it_reaches_and_a_large_batch_reads_all():
    decoder = MODELS["qwen3-vl-235b-a22b"].decoder
    assert decoder.read_bytes(1) == pytest.approx(decoder.active_weights)
    assert decoder.read_bytes(1) < decoder.read_bytes(16) < decoder.read_bytes(1000) == decoder.weights_bytes


def test_native_resolution_makes_one_sequence_and_four_patches_make_a_token():
    model = MODELS["qwen2.5-vl-7b"]
    assert model.image_sequences(1920, 1080) == (69 * 39 * 4,)
    assert model.image_tokens(1920, 1080) == 69 * 39


def test_a_640_pixel_square_makes_the_published_400_tokens_in_qwen3_vl():
    assert MODELS["qwen3-vl-4b"].image_tokens(640, 640) == 400


def test_a_tile_of_448_pixels_makes_the_published_256_tokens_in_internvl2():
    assert MODELS["internvl2-26b"].image_sequences(448, 448) == (1024,)
    assert MODELS["internvl2-26b"].image_tokens(448, 448) == 256


def test_several_tiles_bring_a_thumbnail_along():
    assert MODELS["internvl2-26b"].image_sequences(896, 448) == (1024,) * 3


@pytest.mark.parametrize(("name", "share"), [("qwen2-vl-7b", 0.072), ("internvl2-26b", 0.029)])
def test_the_input_embeddings_that_active_weights_include_are_the_share_that_is_stated(name, share):
    decoder = MODELS[name].decoder
    assert decoder.vocabulary * decoder.hidden / decoder.weights == pytest.approx(share, abs=0.0005)


@pytest.mark.parametrize(
    ("width_px", "height_px", "tiles"), [(1792, 1344, 12), (1792, 1792, 12), (4096, 4096, 12)]
)
def test_an_image_makes_no_more_than_twelve_tiles_and_a_thumbnail(width_px, height_px, tiles):
    assert MODELS["internvl2-26b"].image_sequences(width_px, height_px) == (1024,) * (tiles + 1)


def test_the_smallest_image_still_makes_a_token():
    assert MODELS["qwen2-vl-7b"].image_tokens(1, 1) == 1


def test_an_image_without_area_is_refused_by_its_size():
    with pytest.raises(ValueError, match="0 × 5 pixels"):
        MODELS["qwen2-vl-7b"].image_tokens(0, 5)


def test_the_labs_own_gpus_are_among_the_stage_gpus():
    assert {"h100", "h200", "b200", "a100", "h20"} == set(STAGE_GPUS)
