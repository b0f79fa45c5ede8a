"""The explore sweep: what clients, identities and cache sizes do to each other, measured once for everyone.

A declarative grid; every point is a run of the lab, pictures, engine, checks and all. The cluster of encoder workers
has none of the axes and is simulated once.
"""

from functools import partial
from itertools import product
from typing import Any

from simworkers.jobs import Progress, SweepData
from simworkers.multimodal.cluster import compare_clusters
from simworkers.multimodal.measure import measure
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.scenes import QUIET_CLUSTER
from simworkers.multimodal.simulate import play
from simworkers.sweeping import tabulate
from simworkers.threads import torch_threads

SEED = 0
# What differs from the lab's defaults, at every point. A GPU with few FLOPs, so that KV of a short prompt is worth
# something, and two pictures in a chat, so that an id a chat takes one for the other.
SCENE: dict[str, Any] = QUIET_CLUSTER | {
    "gpu": "h20",
    "users": 3,
    "turns": 3,
    "second_picture_turn": 1,
    "client_id_per": "chat",
    "image_width_px": 252,
    "image_height_px": 196,
    "max_image_tokens": 64,
    "question_tokens": 20,
    "answer_tokens": 4,
}
GRID: dict[str, list[Any]] = {
    "client": ["same_bytes", "lossless_resave", "jpeg", "png_then_jpeg", "resize", "normalised"],
    "identity": ["bytes", "pixels", "client_id"],
    "kv_blocks": [24, 40, 64],
    "encoder_caching": [False, True],
}
LINES = "encoder_caching"
MEASURED = (
    "ttft_turn1_us",
    "ttft_turn2_us",
    "ttft_later_us",
    "server_later_us",
    "server_later_cold_us",
    "server_later_warm_us",
    "hit_rate",
    "hit_rate_ceiling",
    "encoder_hit_rate",
    "images_preprocessed",
    "images_encoded",
    "cached_tokens_turn2",
    "new_tokens_turn2",
    "wrong_pictures",
    "preemptions",
    "cache_bytes",
)


def sweep(progress: Progress) -> SweepData:
    """The whole grid, the last axis fastest."""
    points = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    scene = MultimodalParams.model_validate(SCENE)
    measured = []
    with torch_threads(1):
        cluster = compare_clusters(scene, SEED, lambda _part: progress(0, len(points)))
        for done, point in enumerate(points):
            params = MultimodalParams.model_validate(SCENE | point)
            played = play(params, SEED, partial(_within, progress, done, len(points)))
            measured.append(measure(params, *played, cluster).model_dump(include=set(MEASURED)))
            progress(done + 1, len(points))
    return tabulate("multimodal-cache", SEED, scene, GRID, LINES, MEASURED, measured)


def _within(progress: Progress, done: int, points: int, _turns: int, _all_turns: int) -> None:
    """Progress inside of a point is told as that of the grid."""
    progress(done, points)
