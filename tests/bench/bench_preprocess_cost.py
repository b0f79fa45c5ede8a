"""CPU microseconds a megapixel of image preprocessing: `python -m tests.bench.bench_preprocess_cost`. Asserts nothing.

Decode a JPEG, resize to whole patches, normalise, cut into patches: what `PREPROCESS_US_PER_MEGAPIXEL` states.
"""

import io
import statistics
import time

import numpy as np
from PIL import Image

from simworkers.rng import Stream

PATCH_PX = 14
MERGED_PX = 2 * PATCH_PX


def photograph_like(width_px: int, height_px: int) -> bytes:
    """A JPEG of smooth colour with grain on it: about half a byte a pixel or less, as a photograph has."""
    coarse = Stream(7, "preprocess cost").integers(256, 12 * 20 * 3).reshape(12, 20, 3).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width_px, height_px), Image.Resampling.BICUBIC))
    grain = Stream(8, "preprocess cost").integers(17, smooth.size).reshape(smooth.shape) - 8
    pixels = np.clip(smooth.astype(np.int64) + grain, 0, 255).astype(np.uint8)
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "JPEG", quality=85)
    return packed.getvalue()


def preprocess(packed: bytes) -> np.ndarray:
    """[P, 588] float32 patches of a picture that keeps its resolution up to whole merged patches."""
    picture = Image.open(io.BytesIO(packed)).convert("RGB")
    rows, columns = (round(side / MERGED_PX) * 2 for side in (picture.height, picture.width))
    resized = picture.resize((columns * PATCH_PX, rows * PATCH_PX), Image.Resampling.BICUBIC)
    values = np.asarray(resized, dtype=np.float32) / np.float32(127.5) - np.float32(1)
    cut = values.reshape(rows, PATCH_PX, columns, PATCH_PX, 3).transpose(0, 2, 1, 3, 4)
    return np.ascontiguousarray(cut).reshape(rows * columns, PATCH_PX * PATCH_PX * 3)


def main() -> None:
    print("one core, median of 15")
    for width_px, height_px in ((640, 640), (1280, 720), (1920, 1080), (3840, 2160)):
        packed = photograph_like(width_px, height_px)
        taken_us = []
        for _ in range(15):
            started = time.perf_counter()
            preprocess(packed)
            taken_us.append((time.perf_counter() - started) * 1e6)
        megapixels = width_px * height_px / 1e6
        print(
            f"{width_px} × {height_px}: {len(packed):,} bytes, "
            f"{statistics.median(taken_us) / megapixels:,.0f} µs a megapixel"
        )


if __name__ == "__main__":
    main()
