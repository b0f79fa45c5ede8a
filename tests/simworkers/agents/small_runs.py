"""Small runs of the agent lab, each computed once."""

import json
from functools import cache
from typing import Any

from simworkers.agents.params import AgentParams
from simworkers.agents.simulate import simulate
from tests.simworkers.tasks import silent

SMALL: dict[str, Any] = {"sessions": 4, "turns_percent": 10, "replicas": 2, "compare_policies": False}
TIGHT: dict[str, Any] = SMALL | {"kv_blocks": 6000, "host_gb": 60, "pool_gb": 40, "policy": "round_robin"}


def params_of(**changes):
    return AgentParams.model_validate(SMALL | changes)


def report_of(seed=1, **changes):
    return _report(seed, json.dumps(changes))


@cache
def _report(seed, changes):
    return simulate(params_of(**json.loads(changes)), seed, silent)


def states(report):
    return {name: one.state for name, one in report.invariants.items()}
