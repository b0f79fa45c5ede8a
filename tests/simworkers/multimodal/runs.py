"""Small runs of the multimodal lab for its tests; each set of parameters is played once a process."""

from functools import cache
from typing import Any

from simworkers.jobs import Report
from simworkers.multimodal.checks import Checks
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.server import Server
from simworkers.multimodal.simulate import play, simulate

SMALL = {
    "users": 2,
    "turns": 3,
    "image_width_px": 448,
    "image_height_px": 280,
    "max_image_tokens": 64,
    "answer_tokens": 4,
    "kv_blocks": 256,
    "encoder_budget": 128,
    "cluster_gpus": 4,
    "cluster_encoder_workers": 2,
}


def params_of(**changes: Any) -> MultimodalParams:
    return MultimodalParams.model_validate(SMALL | changes)


def report_of(seed: int = 1, **changes: Any) -> Report:
    return _report(seed, tuple(sorted(changes.items())))


@cache
def _report(seed: int, changes: tuple[tuple[str, Any], ...]) -> Report:
    return simulate(params_of(**dict(changes)), seed, lambda done, total: None)


def turns_of(report: Report, user: int = 0) -> list[dict[str, Any]]:
    """The turns of one user, in order."""
    return sorted(
        (row for row in report.metrics["turns"] if row["user"] == user), key=lambda row: row["turn"]
    )


def played(**changes: Any) -> tuple[Server, Checks]:
    return play(params_of(**changes), 1, lambda done, total: None)
