"""Pictures that learners send: drawn by us from a seed in whole numbers, so a seed means the same pixels anywhere."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from simworkers.multimodal.dashboard import draw_dashboard
from simworkers.multimodal.landscape import draw_landscape
from simworkers.multimodal.terminal import draw_terminal
from simworkers.rng import Stream

PictureKind = Literal["dashboard", "terminal", "photo"]
PICTURE_KINDS: tuple[PictureKind, ...] = get_args(PictureKind)


def draw_picture(kind: PictureKind, seed: int, width: int = 1280, height: int = 800) -> NDArray[np.uint8]:
    """[height, width, 3] RGB. "dashboard": charts and numbers; "terminal": a failing pod; "photo": a landscape.

    ValueError for another kind, or a side outside 64 … 4096 pixels.
    """
    for name, side in (("width", width), ("height", height)):
        if not 64 <= side <= 4096:
            raise ValueError(f"{name}: must lie in 64 … 4096 pixels, not {side}")
    stream = Stream(seed, "picture", kind)
    if kind == "dashboard":
        return draw_dashboard(stream, width, height).pixels
    if kind == "terminal":
        return draw_terminal(stream, width, height).pixels
    if kind == "photo":
        return draw_landscape(stream, width, height)
    raise ValueError(f"kind: must be one of {', '.join(PICTURE_KINDS)}, not {kind!r}")
