"""From pixels to patches: how many tokens a picture becomes, and what the image encoder reads.

Two schemes, both in use. *Native resolution* (Qwen2-VL, arXiv 2409.12191): the sides are rounded to whole tokens and
the picture is shrunk or enlarged into a token budget. *Tiling* (InternVL 1.5, arXiv 2404.16821): the picture is
stretched over the grid of square tiles that is nearest to its aspect ratio, and a thumbnail of the whole is added
unless one tile holds it all. A token stands for merge × merge patches.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# Exactly value / 127.5 − 1 in float32, one rounding an operation.
SCALED = np.arange(256, dtype=np.float32) / np.float32(127.5) - np.float32(1)
Grid = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ProcessorArgs:
    """What decides the patches of a picture; part of every cache key that stands for them.

    ValueError, which names the field, if they do not fit together.
    """

    patch_px: int = 14
    merge: int = 2  # patches along each side of a token
    min_tokens: int = 4  # native resolution: a smaller picture is enlarged
    max_tokens: int = 1280  # a picture never becomes more
    tile_px: int | None = None  # None: native resolution
    max_tiles: int = 12  # thumbnail not counted

    def __post_init__(self) -> None:
        for name, low, high in (
            ("patch_px", 1, 64),
            ("merge", 1, 8),
            ("max_tokens", 1, 16384),
            ("min_tokens", 1, self.max_tokens),
            ("max_tiles", 1, 64),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name}: must lie in {low} … {high}, not {getattr(self, name)}")
        if self.tile_px is not None:
            if self.tile_px < 1 or self.tile_px % self.token_px:
                raise ValueError(f"tile_px: {self.tile_px} is no multiple of a token's {self.token_px} px")
            if self.tile_tokens > self.max_tokens:
                raise ValueError(f"max_tokens: {self.max_tokens} do not hold a tile of {self.tile_tokens}")

    @property
    def token_px(self) -> int:
        """Side of the square that becomes one token."""
        return self.patch_px * self.merge

    @property
    def patch_dim(self) -> int:
        return self.patch_px * self.patch_px * 3

    @property
    def tile_tokens(self) -> int:
        """Tokens of one tile; 0 at native resolution."""
        return (self.tile_px // self.token_px) ** 2 if self.tile_px else 0


@dataclass(frozen=True)
class ProcessedImage:
    """A picture ready for the encoder. `patches` is read-only, since caches share it."""

    patches: NDArray[
        np.float32
    ]  # [P, patch_px · patch_px · 3], tile by tile, row by row; inside: y, x, colour
    grid: Grid  # (rows, columns) of patches of each tile; their products sum to P
    num_tokens: int


def processed_size(width: int, height: int, args: ProcessorArgs) -> tuple[int, int]:
    """(width, height) in pixels to which a picture is resized; under tiling before it is cut, without thumbnail."""
    if width < 1 or height < 1:
        raise ValueError(f"width, height: must be at least 1, not {width} × {height}")
    if args.tile_px is None:
        columns, rows = _native_tokens(width, height, args)
        return columns * args.token_px, rows * args.token_px
    columns, rows = _tile_grid(width, height, args)
    return columns * args.tile_px, rows * args.tile_px


def patch_grid(width: int, height: int, args: ProcessorArgs) -> Grid:
    """(rows, columns) of patches of each tile, the thumbnail last; at native resolution one entry."""
    new_width, new_height = processed_size(width, height, args)
    if args.tile_px is None:
        return ((new_height // args.patch_px, new_width // args.patch_px),)
    tiles = new_width * new_height // args.tile_px**2
    side = args.tile_px // args.patch_px
    return ((side, side),) * (tiles + (tiles > 1))


def count_tokens(width: int, height: int, args: ProcessorArgs) -> int:
    """Tokens, which are embeddings, that a picture of this size becomes."""
    return sum(rows * columns for rows, columns in patch_grid(width, height, args)) // args.merge**2


def make_patches(pixels: NDArray[np.uint8], args: ProcessorArgs) -> ProcessedImage:
    """The patches of `pixels`: [height, width, 3] RGB. Resized by bicubic in fixed point, so the same everywhere."""
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise ValueError(f"pixels: must be [height, width, 3] uint8, not {pixels.shape} {pixels.dtype}")
    height, width = pixels.shape[:2]
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    resized = _resize(picture, processed_size(width, height, args))
    tiles = [resized]
    if args.tile_px is not None:
        tiles = _cut(resized, args.tile_px)
        if len(tiles) > 1:
            tiles.append(_resize(picture, (args.tile_px, args.tile_px)))
    patches = SCALED[np.concatenate([_patchify(tile, args.patch_px) for tile in tiles])]
    patches.flags.writeable = False
    grid = patch_grid(width, height, args)
    return ProcessedImage(patches, grid, len(patches) // args.merge**2)


def _native_tokens(width: int, height: int, args: ProcessorArgs) -> tuple[int, int]:
    """(columns, rows) of tokens: rounded sides, else the largest or smallest of the same shape inside the budget.

    A picture so narrow that its shorter side would vanish keeps one token there and loses its shape instead, so that
    the budget holds for every picture.
    """
    columns = max(1, round(Fraction(width, args.token_px)))
    rows = max(1, round(Fraction(height, args.token_px)))
    if columns * rows < args.min_tokens:  # ⌈side · √(min ÷ area)⌉ in whole numbers
        columns = isqrt((width * args.min_tokens - 1) // height) + 1
        rows = isqrt((height * args.min_tokens - 1) // width) + 1
    if columns * rows > args.max_tokens:  # ⌊side · √(max ÷ area)⌋
        columns = min(max(1, isqrt(width * args.max_tokens // height)), args.max_tokens)
        rows = min(max(1, isqrt(height * args.max_tokens // width)), args.max_tokens)
    return columns, rows


def _tile_grid(width: int, height: int, args: ProcessorArgs) -> tuple[int, int]:
    """(columns, rows) of tiles: of all grids inside the budgets the one nearest to width ÷ height.

    Of equally near ones a larger wins while the picture has more than half its pixels.
    """
    assert args.tile_px is not None
    grids = sorted(
        ((c, r) for c in range(1, args.max_tiles + 1) for r in range(1, args.max_tiles // c + 1)),
        key=lambda grid: (grid[0] * grid[1], grid),
    )
    best, least = (1, 1), abs(Fraction(width, height) - 1)
    for columns, rows in grids[1:]:
        tiles = columns * rows
        if (tiles + 1) * args.tile_tokens > args.max_tokens:
            break
        distance = abs(Fraction(width, height) - Fraction(columns, rows))
        fills = 2 * width * height > tiles * args.tile_px**2
        if distance < least or (distance == least and fills):
            best, least = (columns, rows), distance
    return best


def _resize(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    return picture if picture.size == size else picture.resize(size, Image.Resampling.BICUBIC)


def _cut(picture: Image.Image, tile_px: int) -> list[Image.Image]:
    return [
        picture.crop((x, y, x + tile_px, y + tile_px))
        for y in range(0, picture.height, tile_px)
        for x in range(0, picture.width, tile_px)
    ]


def _patchify(tile: Image.Image, patch_px: int) -> NDArray[np.uint8]:
    """[patches, patch_px · patch_px · 3] of a tile, row by row."""
    pixels = np.asarray(tile)
    rows, columns = pixels.shape[0] // patch_px, pixels.shape[1] // patch_px
    blocks = pixels.reshape(rows, patch_px, columns, patch_px, 3).transpose(0, 2, 1, 3, 4)
    return blocks.reshape(rows * columns, -1)
