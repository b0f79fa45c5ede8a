import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.engine.images import RefusedImage, decode_image
from simworkers.engine.patches import ProcessorArgs, make_patches
from simworkers.multimodal.clients import encode_jpeg, encode_png
from simworkers.multimodal.identity import IDENTITY_KINDS, hash_pixels, identify_image

ARGS = ProcessorArgs()
PIXELS = np.random.default_rng(1).integers(0, 256, (40, 60, 3), dtype=np.uint8)
PNG = encode_png(PIXELS)
RESAVED = encode_png(PIXELS, level=1, comment="saved anew")


def identify(kind, data, args=ARGS):
    return identify_image(kind, data, args, client_id="screenshot")


@pytest.mark.parametrize(("kind", "same"), [("bytes", False), ("pixels", True), ("client_id", True)])
def test_which_identities_survive_a_lossless_resave(kind, same):
    assert (identify(kind, PNG) == identify(kind, RESAVED)) is same


@pytest.mark.parametrize(("kind", "same"), [("bytes", False), ("pixels", False), ("client_id", True)])
def test_which_identities_survive_a_jpeg(kind, same):
    assert (identify(kind, PNG) == identify(kind, encode_jpeg(PIXELS, 95))) is same


@pytest.mark.parametrize(("kind", "same"), [("bytes", False), ("pixels", False), ("client_id", True)])
def test_which_identities_take_another_picture_for_the_same_if_its_id_is_used_twice(kind, same):
    assert (identify(kind, PNG) == identify(kind, encode_png(PIXELS[::-1]))) is same


def test_equal_bytes_of_another_shape_are_another_image():
    row = np.arange(9000, dtype=np.uint8)
    lying, standing = row.reshape(30, 100, 3), row.reshape(100, 30, 3)
    assert lying.tobytes() == standing.tobytes()
    assert hash_pixels(lying) != hash_pixels(standing)
    assert identify("pixels", encode_png(lying)) != identify("pixels", encode_png(standing))


def test_equal_bytes_of_another_mode_or_type_are_another_image():
    assert hash_pixels(PIXELS, "RGB") != hash_pixels(PIXELS, "YCbCr")
    assert hash_pixels(PIXELS) != hash_pixels(PIXELS.view(np.int8))


@pytest.mark.parametrize("kind", IDENTITY_KINDS)
@pytest.mark.parametrize(
    "other", [{"max_tokens": 8}, {"merge": 1}, {"patch_px": 16}, {"tile_px": 28}, {"min_tokens": 9}]
)
def test_other_processor_arguments_are_another_image(kind, other):
    assert identify(kind, PNG) != identify(kind, PNG, ProcessorArgs(**other))


args = st.builds(
    ProcessorArgs,
    max_tokens=st.integers(4, 12),
    min_tokens=st.integers(1, 4),
    tile_px=st.sampled_from([None, 28]),
    max_tiles=st.integers(1, 4),
)


@settings(deadline=None)
@given(args, args)
def test_equal_identifiers_mean_equal_patches(one, other):
    if identify("pixels", PNG, one) == identify("pixels", PNG, other):
        first, second = (make_patches(decode_image(PNG), each).patches for each in (one, other))
        assert np.array_equal(first, second)


@pytest.mark.parametrize("first", IDENTITY_KINDS)
def test_kinds_of_identity_never_meet(first):
    content = identify(first, PNG)
    assert all(
        identify_image(kind, PNG, ARGS, client_id=content) != content
        for kind in IDENTITY_KINDS
        if kind != first
    )


def test_pixels_of_what_is_no_picture_are_refused():
    with pytest.raises(RefusedImage):
        identify("pixels", b"no picture")


@pytest.mark.parametrize("client_id", [None, "", "x" * 257])
def test_a_missing_or_endless_id_is_refused_by_name(client_id):
    with pytest.raises(ValueError, match="client_id: must have 1 … 256 characters"):
        identify_image("client_id", PNG, ARGS, client_id)


def test_another_kind_of_identity_is_refused_by_name():
    with pytest.raises(ValueError, match="identity: must be one of bytes, pixels, client_id, not 'name'"):
        identify("name", PNG)
