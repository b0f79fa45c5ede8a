"""References of tasks whose bounds do not depend on what is handed in: the bounds of an instance are played once.

Each test module that uses them holds, on one instance, that a whole run of every reference reports the same ones.
"""

import functools
from typing import Any

from simworkers.agents.params import AgentParams
from simworkers.agents.simulate import simulate
from tests.simworkers.tasks import Tasks, silent


def bounded_tasks(asked_by: str, bounds: tuple[str, ...]) -> Tasks:
    """asked_by: the parameter that asks for them. bounds: metrics."""

    @functools.cache
    def found(kind: str, seed: int) -> dict[str, Any]:
        metrics = whole_run(tasks, kind, seed, "expert")
        return {name: metrics[name] for name in bounds}

    @functools.cache
    def measured(kind: str, seed: int, who: str) -> dict[str, Any]:
        return whole_run(tasks, kind, seed, who, **{asked_by: False}) | found(kind, seed)

    tasks = Tasks("agent-routing", measured)
    return tasks


def whole_run(tasks: Tasks, kind: str, seed: int, who: str, **changes: Any) -> dict[str, Any]:
    """The metrics of a reference's graded run."""
    prepared = tasks.instance(kind, seed)
    values = prepared.params | tasks.references(kind, seed)[who].params | changes
    return simulate(AgentParams.model_validate(values), prepared.seed, silent).metrics
