"""What the tasks of the lab share: drawing until an instance serves, and playing a candidate."""

from collections.abc import Sequence
from typing import Any, TypeVar

from simworkers.jobs import Progress
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.simulate import simulate
from simworkers.rng import Stream

# The cluster of tasks that are about the engine: as small as it can be, since nothing reads it.
QUIET_CLUSTER: dict[str, Any] = {
    "cluster_gpus": 2,
    "cluster_tensor_parallel": 1,
    "cluster_encoder_workers": 1,
    "cluster_images": 1,
    "cluster_requests_per_s": 100.0,
}

Choice = TypeVar("Choice")


def one_of(stream: Stream, choices: Sequence[Choice]) -> Choice:
    return choices[stream.integer(len(choices))]


def play_metrics(params: MultimodalParams, seed: int, progress: Progress) -> dict[str, Any]:
    """What a run with these parameters reports."""
    return simulate(params, seed, progress).metrics
