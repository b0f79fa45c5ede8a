import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.engine.patches import (
    ProcessorArgs,
    count_tokens,
    make_patches,
    patch_grid,
    processed_size,
)

NATIVE = ProcessorArgs()
TILED = ProcessorArgs(tile_px=448, max_tokens=4096)
SMALL_TILES = ProcessorArgs(tile_px=56, max_tiles=6, max_tokens=64)

any_side = st.integers(1, 9000)
any_args = st.one_of(
    st.builds(
        lambda low, more: ProcessorArgs(min_tokens=low, max_tokens=low + more),
        st.integers(1, 64),
        st.integers(0, 2000),
    ),
    st.builds(
        lambda tiles, tokens: ProcessorArgs(tile_px=112, max_tiles=tiles, max_tokens=tokens),
        st.integers(1, 16),
        st.integers(16, 400),
    ),
)


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"patch_px": 0}, r"patch_px: must lie in 1 … 64, not 0"),
        ({"min_tokens": 9, "max_tokens": 8}, r"min_tokens: must lie in 1 … 8, not 9"),
        ({"tile_px": 100}, r"tile_px: 100 is no multiple of a token's 28 px"),
        ({"tile_px": 448, "max_tokens": 255}, r"max_tokens: 255 do not hold a tile of 256"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused_by_name(fields, message):
    with pytest.raises(ValueError, match=message):
        ProcessorArgs(**fields)


def test_a_picture_without_pixels_is_refused():
    with pytest.raises(ValueError, match="width, height"):
        count_tokens(0, 5, NATIVE)


@pytest.mark.parametrize(
    "pixels", [noise(4, 4)[:, :, 0], noise(4, 4).astype(np.float32), noise(4, 4)[:, :, :2]]
)
def test_anything_but_rgb_bytes_is_refused(pixels):
    with pytest.raises(ValueError, match="pixels: must be"):
        make_patches(pixels, NATIVE)


# Worked by hand from the published rules. 1280 × 800: 46 × 29 = 1,334 tokens are above 1,280, so √(1.6 · 1280) = 45
# and √(1280 ÷ 1.6) = 28.
@pytest.mark.parametrize(
    ("width", "height", "tokens"), [(1280, 800, 45 * 28), (448, 448, 256), (10, 10, 4), (224, 336, 96)]
)
def test_native_resolution_gives_the_published_token_counts(width, height, tokens):
    assert count_tokens(width, height, NATIVE) == tokens


# 1280 × 800 lies nearest to 3 × 2 tiles, and a thumbnail joins them.
@pytest.mark.parametrize(
    ("width", "height", "tiles"),
    [(1280, 800, 7), (448, 448, 1), (300, 300, 1), (900, 900, 5), (800, 1600, 9)],
)
def test_tiling_gives_the_published_tile_counts(width, height, tiles):
    assert count_tokens(width, height, TILED) == 256 * tiles


@settings(deadline=None)
@given(any_side, any_side, any_args)
def test_no_picture_takes_more_tokens_than_its_budget(width, height, args):
    assert 1 <= count_tokens(width, height, args) <= args.max_tokens


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 60))
def test_a_small_picture_is_enlarged_to_the_least_budget(width, height, least):
    assert count_tokens(width, height, ProcessorArgs(min_tokens=least, max_tokens=16384)) >= least


@given(st.integers(200, 4000), st.integers(200, 4000))
def test_native_resolution_keeps_the_shape_to_within_a_token_a_side(width, height):
    new_width, new_height = processed_size(width, height, NATIVE)
    low = (new_width - 28) / (new_height + 28)
    assert low <= width / height <= (new_width + 28) / (new_height - 28)


@given(any_side, any_side)
def test_turning_a_picture_turns_its_native_grid(width, height):
    ((rows, columns),) = patch_grid(width, height, NATIVE)
    assert patch_grid(height, width, NATIVE) == ((columns, rows),)


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([NATIVE, SMALL_TILES]))
def test_the_patches_are_as_many_as_the_grid_and_the_count_foretell(width, height, args):
    image = make_patches(np.zeros((height, width, 3), np.uint8), args)
    assert image.patches.shape == (sum(r * c for r, c in image.grid), args.patch_dim)
    assert image.grid == patch_grid(width, height, args)
    assert image.num_tokens == count_tokens(width, height, args)


def test_a_picture_of_fitting_size_is_cut_and_not_resampled():
    pixels = noise(56, 84)
    patches = make_patches(pixels, NATIVE).patches.reshape(4, 6, 14, 14, 3)
    for row in range(4):
        for column in range(6):
            block = pixels[14 * row : 14 * row + 14, 14 * column : 14 * column + 14]
            expected = block.astype(np.float32) / np.float32(127.5) - np.float32(1)
            assert np.array_equal(patches[row, column], expected)


def test_tiles_come_row_by_row_and_the_thumbnail_last():
    shades = [[10, 20, 30], [40, 50, 60]]
    pixels = np.repeat(np.repeat(np.array(shades, np.uint8), 56, 0), 56, 1)[:, :, None].repeat(3, 2)
    image = make_patches(pixels, SMALL_TILES)
    tiles = image.patches.reshape(7, 16, -1)
    means = ((tiles.mean(axis=(1, 2)) + 1) * 127.5).round()
    assert means.tolist() == [10, 20, 30, 40, 50, 60, 35]


def test_a_picture_of_one_tile_has_no_thumbnail():
    assert patch_grid(56, 56, SMALL_TILES) == ((4, 4),)


def test_patches_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        make_patches(noise(28, 28), NATIVE).patches[0, 0] = 0


def test_rows_and_columns_are_whole_tokens():
    args = ProcessorArgs(merge=3)
    for rows, columns in patch_grid(1000, 700, args):
        assert rows % 3 == columns % 3 == 0
