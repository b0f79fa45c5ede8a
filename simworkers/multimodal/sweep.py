"""The explore sweep: what clients, identities and cache sizes do to each other, measured once for everyone.

A declarative grid; every point is a run of the lab, pictures, engine, checks and all. The cluster of encoder workers
has none of the axes and is simulated once.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from simworkers.catalog import engine_version
from simworkers.jobs import Axis, Progress, SweepData, SweepMetric
from simworkers.multimodal.cluster import compare_clusters
from simworkers.multimodal.measure import measure
from simworkers.multimodal.metrics import MultimodalMetrics
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.scenes import QUIET_CLUSTER
from simworkers.multimodal.simulate import play
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
    "kv_blocks": [24, 64],
    "encoder_cache_embeddings": [64, 1024],
}
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
    return _tabulate(scene, measured)


def _within(progress: Progress, done: int, points: int, _turns: int, _all_turns: int) -> None:
    """Progress inside of a point is told as that of the grid."""
    progress(done, points)


def _tabulate(scene: MultimodalParams, measured: list[dict[str, float]]) -> SweepData:
    shape = [len(values) for values in GRID.values()]
    fields = MultimodalMetrics.model_json_schema()["properties"]
    params = MultimodalParams.model_json_schema()["properties"]
    return SweepData(
        lab="multimodal-cache",
        engine_version=engine_version("multimodal-cache"),
        seed=SEED,
        params={name: value for name, value in scene.model_dump().items() if name not in GRID},
        axes=[Axis(name=name, unit=params[name]["unit"], values=values) for name, values in GRID.items()],
        metrics=[
            SweepMetric(
                name=name,
                unit=fields[name]["unit"],
                description=fields[name]["description"],
                values=np.array([point[name] for point in measured], dtype=object).reshape(shape).tolist(),
            )
            for name in MEASURED
        ],
    )
