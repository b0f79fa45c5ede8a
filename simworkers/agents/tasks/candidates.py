"""Drawing an instance of a task that is scored between anchors, and what a learner sees of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from simworkers.agents.params import AgentParams
from simworkers.agents.tasks.anchors import Anchors, find_anchors
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress
from simworkers.rng import Stream

# Names of parameters that are shown: of a cluster and its load, of what happens to it.
LOAD = (
    "model",
    "gpu",
    "replicas",
    "tensor_parallel",
    "sessions",
    "sessions_at_once",
    "start_gap_ms",
    "turns_percent",
    "think_at_most_s",
)
INCIDENT = ("incident", "incident_at_s", "incident_for_s")


@dataclass(frozen=True)
class Candidate:
    """One draw. seed: of the graded run."""

    params: AgentParams
    seed: int
    anchors: Anchors
    visible: dict[str, Any]

    def chosen(self, choice: Mapping[str, Any]) -> AgentParams:
        """The graded run as somebody sets it."""
        return self.params.model_copy(update=choice)

    def reached(self, value: float) -> float:
        """Of the way from the low anchor to the high one."""
        return (value - self.anchors.low) / (self.anchors.high - self.anchors.low)


def draw_between_anchors(
    seed: int,
    progress: Progress,
    *,
    task: str,
    draws: int,
    draw_params: Callable[[Stream], AgentParams],
    describe: Callable[[AgentParams], dict[str, Any]],
    serves: Callable[[Candidate], bool],
) -> PreparedInstance:
    """The first candidate that serves."""

    def draw(stream: Stream) -> PreparedInstance | None:
        return draw_one(stream, progress, draw_params, describe, serves)

    return draw_until_it_serves(seed, task, draw, draws)


def draw_one(
    stream: Stream,
    progress: Progress,
    draw_params: Callable[[Stream], AgentParams],
    describe: Callable[[AgentParams], dict[str, Any]],
    serves: Callable[[Candidate], bool],
) -> PreparedInstance | None:
    """One candidate as an instance; None where it does not serve."""
    progress(0, 1)
    params, run_seed = draw_params(stream), stream.integer(SEEDS)
    anchors = find_anchors(params, run_seed, lambda: progress(0, 1))
    candidate = Candidate(params, run_seed, anchors, describe(params))
    if not serves(candidate):
        return None
    return PreparedInstance(params=params.model_dump(), visible=candidate.visible, seed=run_seed)


def show(params: AgentParams, names: Iterable[str]) -> dict[str, Any]:
    """Parameters by name, in this order."""
    values = params.model_dump()
    return {name: values[name] for name in names}


def shown_load(visible: Mapping[str, Any], names: Iterable[str], **changes: Any) -> AgentParams:
    """What is shown under these names, as a learner can play it."""
    return AgentParams.model_validate({name: visible[name] for name in names} | changes)
