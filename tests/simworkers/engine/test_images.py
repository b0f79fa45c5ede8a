import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from simworkers.engine.images import DEFAULT_LIMITS, ImageLimits, RefusedImage, decode_image

PIXELS = np.random.default_rng(3).integers(0, 256, (5, 7, 3), dtype=np.uint8)
KINDS = [
    ("PNG", {}),
    ("JPEG", {}),
    ("JPEG", {"progressive": True}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("GIF", {}),
]


def encoded(picture, kind="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def picture():
    return Image.fromarray(PIXELS)


def png(width, height, depth, colour_type, rows, *chunks):
    """A PNG written by hand, for what Pillow does not write."""

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            *(chunk(*each) for each in chunks),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        ]
    )


def oriented(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def grey_of(data):
    pixels = decode_image(data)
    assert (pixels == pixels[:, :, :1]).all()
    return pixels[:, :, 0].tolist()


def test_a_lossless_picture_comes_back_as_it_was():
    for kind, options in (("PNG", {}), ("WEBP", {"lossless": True})):
        pixels = decode_image(encoded(picture(), kind, **options))
        assert pixels.dtype == np.uint8 and np.array_equal(pixels, PIXELS)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_a_lossy_picture_comes_back_near_to_what_it_was(kind):
    flat = Image.new("RGB", (32, 16), (200, 100, 50))
    pixels = decode_image(encoded(flat, kind, quality=95))
    assert pixels.shape == (16, 32, 3)
    assert np.abs(pixels.astype(int) - [200, 100, 50]).max() <= 3


@pytest.mark.parametrize("data", [b"", b"hello", b"BM" + bytes(60), b"%PDF-1.7", b"<svg/>", b"RIFF1234WAVE"])
def test_other_kinds_of_file_are_refused(data):
    with pytest.raises(RefusedImage, match="neither PNG nor JPEG, WebP or GIF"):
        decode_image(data)


@pytest.mark.parametrize("kind", ["TIFF", "BMP", "PPM"])
def test_kinds_that_pillow_could_read_are_refused_all_the_same(kind):
    with pytest.raises(RefusedImage, match="neither PNG"):
        decode_image(encoded(picture(), kind))


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_file_cut_anywhere_is_refused_or_lost_nothing_of_the_picture(kind, options):
    data = encoded(picture(), kind, **options)
    whole = decode_image(data)
    refused = 0
    for length in range(len(data)):
        try:
            assert np.array_equal(decode_image(data[:length]), whole)
        except RefusedImage:
            refused += 1
    assert refused >= len(data) - 20  # PNG ends with 20 bytes, GIF with 2, that hold no pixel


@settings(deadline=None)
@given(st.sampled_from(KINDS), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=8))
def test_damage_is_refused_or_decodes_to_pixels_and_never_raises_anything_else(kind, damage):
    data = bytearray(encoded(picture(), kind[0], **kind[1]))
    for place, value in damage:
        data[place % len(data)] = value
    try:
        pixels = decode_image(bytes(data), ImageLimits(pixels=10_000))
    except RefusedImage:
        return
    assert pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.size


def test_a_file_with_too_many_bytes_is_refused():
    with pytest.raises(RefusedImage, match="the file has 8388609 bytes, more than 8388608"):
        decode_image(bytes(DEFAULT_LIMITS.file_bytes + 1))


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ImageLimits(pixels=34), "7 × 5 are more than 34 pixels"),
        (ImageLimits(side_px=6), "a side above 6 px"),
        (ImageLimits(aspect=1), "narrower than 1 : 1"),
    ],
)
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_a_picture_outside_the_limits_is_refused(kind, options, limits, reason):
    with pytest.raises(RefusedImage, match=reason):
        decode_image(encoded(picture(), kind, **options), limits)


def test_a_decompression_bomb_is_refused_by_its_header_alone():
    bomb = png(60_000, 60_000, 8, 2, b"")
    with pytest.raises(RefusedImage, match="60000 × 60000 are more than 16777216 pixels"):
        decode_image(bomb)


def test_a_webp_bomb_is_refused_before_its_decoder_makes_room():
    for data in (
        encoded(picture(), "WEBP"),
        encoded(picture(), "WEBP", lossless=True),
        encoded(picture(), "WEBP", exif=oriented(1)),
    ):
        # No decoder would take so little, so it is our reading of the size that refuses.
        with pytest.raises(RefusedImage, match="7 × 5 are more than 34 pixels"):
            decode_image(data[:30], ImageLimits(pixels=34))


@pytest.mark.parametrize("name", [b"zTXt", b"iTXt", b"iCCP"])
def test_a_text_that_swells_up_is_refused_or_left_aside(name):
    swollen = zlib.compress(bytes(100_000_000), 9)
    head = b"Comment\0\x01\0\0\0" if name == b"iTXt" else b"Comment\0\0"
    data = png(1, 1, 8, 0, b"\0\x07", (name, head + swollen))
    tracemalloc.start()
    try:
        assert grey_of(data) == [[7]]
    except RefusedImage:
        pass
    finally:
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak_bytes < 20_000_000


def test_a_png_without_columns_is_refused():
    with pytest.raises(RefusedImage):
        decode_image(png(0, 4, 8, 0, b""))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_refused(kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    with pytest.raises(RefusedImage, match="animations are not taken"):
        decode_image(data)


UPRIGHT = {
    1: PIXELS,
    2: PIXELS[:, ::-1],
    3: PIXELS[::-1, ::-1],
    4: PIXELS[::-1],
    5: PIXELS.transpose(1, 0, 2),
    6: PIXELS[::-1].transpose(1, 0, 2),
    7: PIXELS[::-1, ::-1].transpose(1, 0, 2),
    8: PIXELS[:, ::-1].transpose(1, 0, 2),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize(("kind", "options"), [("PNG", {}), ("WEBP", {"lossless": True})])
def test_a_picture_is_turned_as_its_exif_says(kind, options, orientation):
    data = encoded(picture(), kind, exif=oriented(orientation), **options)
    assert np.array_equal(decode_image(data), UPRIGHT[orientation])


def test_a_jpeg_is_turned_as_its_exif_says():
    plain = decode_image(encoded(picture(), "JPEG"))
    turned = decode_image(encoded(picture(), "JPEG", exif=oriented(6)))
    assert np.array_equal(turned, plain[::-1].transpose(1, 0, 2))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_means_nothing_is_ignored(orientation):
    assert np.array_equal(decode_image(encoded(picture(), exif=oriented(orientation))), PIXELS)


@pytest.mark.parametrize(
    "exif",
    [
        b"Exif\0\0",
        b"Exif\0\0garbage",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\x01",
        b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x02\0\xff\xff\xff\xff\x10\0\0\0",
    ],
)
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
@pytest.mark.filterwarnings("ignore")
def test_malformed_exif_is_ignored(kind, exif):
    plain = decode_image(encoded(picture(), kind))
    assert np.array_equal(decode_image(encoded(picture(), kind, exif=exif)), plain)


def test_a_malformed_exif_text_of_a_png_is_ignored():
    text = b"Raw profile type exif\0\nexif\n  9\nnot hexadecimal"
    assert grey_of(png(2, 1, 8, 0, b"\0\x10\x20", (b"tEXt", text))) == [[16, 32]]


def test_a_palette_becomes_its_colours():
    data = encoded(Image.fromarray(PIXELS).quantize(64))
    assert np.array_equal(decode_image(data), PIXELS)


def test_grey_of_16_bits_keeps_its_upper_eight():
    rows = b"\0" + struct.pack(">4H", 0, 255, 256 * 77 + 5, 65535)
    assert grey_of(png(4, 1, 16, 0, rows)) == [[0, 0, 77, 255]]


def test_colour_of_16_bits_keeps_its_upper_eight():
    rows = b"\0" + struct.pack(">3H", 256 * 77 + 200, 255, 65535)
    assert decode_image(png(1, 1, 16, 2, rows)).tolist() == [[[77, 0, 255]]]


def test_grey_of_16_bits_and_alpha_lies_on_white():
    rows = b"\0" + struct.pack(">4H", 256 * 77, 65535, 256 * 77, 0)
    assert grey_of(png(2, 1, 16, 4, rows)) == [[77, 255]]


def test_the_key_colour_of_16_bit_grey_is_white():
    rows = b"\0" + struct.pack(">3H", 300, 301, 0)
    assert grey_of(png(3, 1, 16, 0, rows, (b"tRNS", struct.pack(">H", 300)))) == [[255, 1, 0]]


def test_what_is_transparent_lies_on_white():
    alpha = np.array([[0, 255, 128]], np.uint8)
    rgba = np.dstack([np.zeros((1, 3, 3), np.uint8), alpha])
    assert grey_of(encoded(Image.fromarray(rgba))) == [[255, 0, 127]]
    grey_alpha = Image.merge("LA", [Image.new("L", (1, 1), 0), Image.new("L", (1, 1), 0)])
    assert grey_of(encoded(grey_alpha)) == [[255]]


def test_a_transparent_palette_entry_is_white():
    palette = Image.new("P", (2, 1))
    palette.putpalette([0, 0, 0, 9, 9, 9])
    palette.putdata([0, 1])
    assert grey_of(encoded(palette, transparency=0)) == [[255, 9]]
    assert grey_of(encoded(palette, "GIF", transparency=0)) == [[255, 9]]


def test_one_bit_and_grey_become_rgb():
    assert grey_of(png(8, 1, 1, 0, b"\0\xaa")) == [[255, 0] * 4]
    assert grey_of(png(3, 1, 8, 0, b"\0\x01\x02\xff")) == [[1, 2, 255]]


def test_the_key_colour_of_8_bit_grey_and_rgb_is_white():
    assert grey_of(png(2, 1, 8, 0, b"\0\x05\x06", (b"tRNS", b"\0\x05"))) == [[255, 6]]
    rows = b"\0\x05\x05\x05\x06\x06\x06"
    assert grey_of(png(2, 1, 8, 2, rows, (b"tRNS", b"\0\x05\0\x05\0\x05"))) == [[255, 6]]


def test_cmyk_becomes_rgb_by_the_plain_formula():
    flat = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    red = decode_image(encoded(flat, "JPEG", quality=100))
    assert np.abs(red.astype(int) - [255, 0, 0]).max() <= 2


def test_every_mode_gives_three_channels_of_bytes():
    for mode in ("1", "L", "P", "RGB", "RGBA", "LA", "I;16"):
        pixels = decode_image(encoded(Image.new(mode, (6, 4))))
        assert pixels.shape == (4, 6, 3) and pixels.dtype == np.uint8
