"""A landscape at dusk with the noise of a camera, in whole numbers: what JPEG was made for.

The texture is value noise: random heights on a lattice, blended smoothly between its points, several sizes added.
"""

import numpy as np
from numpy.typing import NDArray

from simworkers.rng import Stream

IntArray = NDArray[np.int64]
ONE = 2**16  # noise lies in 0 … ONE
SKY_TOP, SKY_LOW, SUN = (38, 62, 120), (246, 176, 112), (255, 226, 168)
FAR, NEAR = (128, 112, 138), (18, 30, 26)
NUM_RIDGES = 5


def draw_landscape(stream: Stream, width: int, height: int) -> NDArray[np.uint8]:
    """[height, width, 3] RGB"""
    pixels = _sky(stream, width, height)
    for ridge in range(NUM_RIDGES):
        _add_ridge(stream, pixels, ridge)
    seen: NDArray[np.uint8] = np.clip(pixels + _grain(stream, width, height), 0, 255).astype(np.uint8)
    return seen


def _add_ridge(stream: Stream, pixels: IntArray, ridge: int) -> None:
    """Draw one ridge over those behind it; the nearer, the rougher and darker."""
    height, width, _ = pixels.shape
    cell = max(8, width * (NUM_RIDGES - ridge) // (3 * NUM_RIDGES))
    outline = noise(stream, 1, width, cell)[0]
    tops = height * (48 + 11 * ridge) // 100 - (outline - ONE // 3) * height // (4 * ONE)
    under = pixels[max(0, int(tops.min())) :]
    rows = np.arange(height - len(under), height)[:, None]
    colour = _mix(FAR, NEAR, np.array(ridge * ONE // (NUM_RIDGES - 1)))
    # Towards its foot there is haze, and more of it far away.
    depth = np.clip((rows - tops) * 4 * ONE // height, 0, ONE)
    hazy = _mix_arrays(colour, np.array(SKY_LOW), depth * (NUM_RIDGES - ridge) // (4 * NUM_RIDGES))
    texture = noise(stream, len(under), width, max(4, width * (ridge + 1) // 72), octaves=4) - ONE // 2
    lit = hazy + texture[..., None] * (8 + 8 * ridge) // ONE
    np.copyto(under, lit, where=(rows >= tops)[..., None])


def noise(stream: Stream, height: int, width: int, cell: int, octaves: int = 5) -> IntArray:
    """[height, width] in 0 … ONE; each octave has half the cell, in pixels, and half the weight of the one before."""
    total, weights = np.zeros((height, width), dtype=np.int64), 0
    for octave in range(octaves):
        weight = 1 << (octaves - 1 - octave)
        total += weight * _one_octave(stream, height, width, max(1, cell >> octave))
        weights += weight
    return total // weights


def _one_octave(stream: Stream, height: int, width: int, cell: int) -> IntArray:
    rows, columns = height // cell + 2, width // cell + 2
    lattice = stream.integers(ONE + 1, rows * columns).reshape(rows, columns)
    y, v = _place(height, cell)
    x, u = _place(width, cell)
    across = (lattice[:, x] * (256 - u) + lattice[:, x + 1] * u) >> 8
    mixed: IntArray = (across[y] * (256 - v[:, None]) + across[y + 1] * v[:, None]) >> 8
    return mixed


def _place(length: int, cell: int) -> tuple[IntArray, IntArray]:
    """([length] the lattice point before each pixel, [length] how far the next one has come, 0 … 256, eased)."""
    index = np.arange(length, dtype=np.int64)
    part = index % cell * 256 // cell
    return index // cell, part * part * (768 - 2 * part) >> 16


def _sky(stream: Stream, width: int, height: int) -> IntArray:
    """[height, width, 3] from blue to orange, a low sun and clouds that it lights."""
    rows, columns = np.mgrid[0:height, 0:width]
    pixels = _mix(SKY_TOP, SKY_LOW, np.minimum(rows * 2 * ONE // height, ONE))
    sun_x, sun_y = width // 4 + stream.integer(max(1, width // 2)), height * 2 // 5
    square = (columns - sun_x) ** 2 + (rows - sun_y) ** 2
    size = max(1, (height // 3) ** 2)
    glow = ONE * size // (size + 12 * square)
    pixels = _mix_arrays(pixels, np.array(SUN), glow)
    cloud = np.clip((noise(stream, height, width, max(8, width // 5)) - ONE * 48 // 100) * 4, 0, ONE)
    cloud = cloud * np.clip(ONE - rows * 2 * ONE // height, 0, ONE) // ONE
    return _mix_arrays(pixels, np.array((250, 206, 190)), cloud)


def _grain(stream: Stream, width: int, height: int) -> IntArray:
    """[height, width, 3] what a sensor adds: the sum of four draws of −1, 0, 1 and 2, less their mean."""
    words = stream.words(-(-height * width * 3 // 8)).view(np.uint8)[: height * width * 3]
    bits = words.astype(np.int64).reshape(height, width, 3)
    drawn: IntArray = (bits & 3) + (bits >> 2 & 3) + (bits >> 4 & 3) + (bits >> 6 & 3) - 6
    return drawn


def _mix(one: tuple[int, int, int], other: tuple[int, int, int], share: IntArray) -> IntArray:
    return _mix_arrays(np.array(one), np.array(other), share)


def _mix_arrays(one: IntArray, other: IntArray, share: IntArray) -> IntArray:
    """[..., 3] of two colours; share: [...] of the other, 0 … ONE."""
    mixed: IntArray = (one * (ONE - share[..., None]) + other * share[..., None]) // ONE
    return mixed
