"""Drawing an instance of a task: candidate after candidate, until one tells people apart."""

from collections.abc import Callable

from simworkers.jobs import PreparedInstance
from simworkers.rng import Stream
from simworkers.threads import torch_threads

SEEDS = 2**62  # hidden seeds of runs lie below


def draw_until_it_serves(
    seed: int, task: str, draw: Callable[[Stream], PreparedInstance | None], draws: int
) -> PreparedInstance:
    """The first instance that serves. The same seed gives the same instance everywhere."""
    with torch_threads(1):
        for attempt in range(draws):
            instance = draw(Stream(seed, task, attempt))
            if instance is not None:
                return instance
    raise AssertionError(f"none of {draws} draws from seed {seed} serves")
