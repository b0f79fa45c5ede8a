"""What the tasks of the lab share: drawing until an instance serves, and playing a candidate."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from simworkers.jobs import PreparedInstance, Progress
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.simulate import simulate
from simworkers.rng import Stream

SEEDS = 2**62  # hidden seeds lie below
# The cluster of tasks that are about the engine: as small as it can be, since nothing reads it.
QUIET_CLUSTER: dict[str, Any] = {
    "cluster_gpus": 2,
    "cluster_tensor_parallel": 1,
    "cluster_encoder_workers": 1,
    "cluster_images": 1,
    "cluster_requests_per_s": 100.0,
}

Choice = TypeVar("Choice")


def draw_until_it_serves(
    seed: int, task: str, draw: Callable[[Stream], PreparedInstance | None], draws: int
) -> PreparedInstance:
    """The first instance that serves. The same seed gives the same instance everywhere."""
    for attempt in range(draws):
        instance = draw(Stream(seed, task, attempt))
        if instance is not None:
            return instance
    raise AssertionError(f"none of {draws} draws from seed {seed} serves")


def one_of(stream: Stream, choices: Sequence[Choice]) -> Choice:
    return choices[stream.integer(len(choices))]


def play_metrics(params: MultimodalParams, seed: int, progress: Progress) -> dict[str, Any]:
    """What a run with these parameters reports."""
    return simulate(params, seed, progress).metrics
