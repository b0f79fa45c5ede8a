"""In no task does what a learner may set move what the run is scored between, or keep it from being judged."""

import functools
from typing import Any

import pytest
from annotated_types import Ge, Le
from pydantic import ValidationError

from labs.rubric import grade
from simworkers.agents.params import AgentParams
from simworkers.agents.simulate import simulate
from tests.simworkers.agents.tasks import KINDS, instance, rubric, silent

BOUNDS = (
    "anchor_low",
    "anchor_high",
    "tiers_runner_up_ttft_us",
    "tiers_best_ttft_us",
    "caps_careful_ttft_us",
    "caps_best_ttft_us",
)
OPEN = [(kind, name) for kind in KINDS for name in KINDS[kind].open_parameters]
GPUS = ("replicas", "tensor_parallel", "pipeline_parallel")  # whose product is given
# Predictions whose credit hangs on having been made, where they are judged at all.
PREDICTIONS: dict[str, dict[str, Any]] = {"predict-cached-share": {"new_tokens": 0, "cached_tokens": 0}}


def extremes(kind, name):
    """Submissions that have this parameter at one end of its range; where it is offered or bounded with others, as far
    as the instance allows."""
    params, field = instance(kind, 0).params, AgentParams.model_fields[name]
    if name in GPUS:
        return [dict(zip(GPUS, split, strict=True)) for split in ((16, 1, 1), (2, 8, 1), (1, 2, 8))]
    if name in ("host_gb", "pool_gb") and params["memory_offer_gb"]:
        offer = params["memory_offer_gb"]
        return [{name: 1}, {name: offer if name == "pool_gb" else offer // params["replicas"]}]
    names = getattr(field.annotation, "__args__", ())
    if names:
        return [{name: one} for one in names]
    lows = [one.ge for one in field.metadata if isinstance(one, Ge)]
    highs = [one.le for one in field.metadata if isinstance(one, Le)]
    assert len(lows) == len(highs) == 1, f"{name} is not bounded"
    return [{name: lows[0]}, {name: highs[0]}]


@functools.cache
def untouched(kind):
    """What a run that leaves everything as it is gets judged against."""
    return bounds(kind, {})


def bounds(kind, choice):
    """Of a graded run, which is judged, too."""
    prepared = instance(kind, 0)
    try:
        params = AgentParams.model_validate(prepared.params | choice)
    except ValidationError:  # refused before it runs: the model does not fit so few GPUs
        assert choice.keys() <= set(GPUS), choice
        return untouched(kind)
    metrics = simulate(params, prepared.seed, silent).metrics
    sheet = grade(metrics, rubric(kind), prediction=PREDICTIONS.get(kind, {"made": 1}))
    assert sheet.score >= 0
    return {name: metrics[name] for name in BOUNDS}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), OPEN)
def test_a_parameter_at_either_end_moves_no_bound_and_the_run_is_judged(kind, name):
    for choice in extremes(kind, name):
        assert bounds(kind, choice) == untouched(kind), choice
