"""How long a run takes, from its parameters and, of a recorded trace, from its counts: what bounds it, and what decides
how it is queued.

The constants were measured on one core of a small server, runs with little KV and much load: what a run takes
stays below what is expected here. Of recorded traces whole runs were measured: of the committed sessions, a
sample of recorded ones, and 100 and 256 generated ones 3 to 6 times what they took is expected; of 2,000 rows
of requests 9 to 24 times; of 256 agents side by side that grow into little KV 3 to 5 times; of 1,500
subagents at once, whose prompts have one token and whose answers 200 to 20,000, 3 to 9 times under 64 to
1,024 seats of one replica, 24 times where four share them or KV holds one. Where KV is ample it is more yet.
One simulation alone took at least 1.2 times less than its part.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WORK_FIELDS = (
    "trace",
    "sessions",
    "turns_percent",
    "context_percent",
    "replicas",
    "pipeline_parallel",
    "token_budget",
    "prefill_cap_tokens",
    "host_gb",
    "pool_gb",
    "compare_caps",
    "compare_tiers",
    "search_load",
    "scored_as",
    "compare_policies",
)
MAX_WORK_S = 120
# Of a drawn session and of its requests at 100%, subagents' included.
REQUESTS_OF_A_SESSION, INPUT_TOKENS, OUTPUT_TOKENS = 76, 142_000, 450
START_S = 0.5
REQUEST_S, REQUEST_S_A_REPLICA = 0.00013, 0.000008  # of one simulation; routers look at every replica
RUNS_OF_A_REQUEST = 60  # of blocks that stand together, in its prompt: what REQUEST_S holds
RUN_S = 0.0000008  # of one more in one simulation, where contexts part in many places
RUN_IN_TIERS_S = 0.0000035  # of each in one simulation that has tiers
RUN_ONCE_S = 0.000004  # of one more: building the workload, and replaying it
STEP_S = 0.000009  # of a step that is simulated alone
# Of a request in one simulation of a recorded trace, where many have seats at once. It is touched at the end of every
# stretch of steps: at most once for each of its output tokens, and as often as others come, end or are pushed out.
TOKEN_S = 0.000003
STRETCH_S, STRETCH_S_A_SEAT, PUSHED_OUT_S_A_SEAT = 0.00003, 0.000001, 0.0000001
COMPARED, LOADS = 7 * 5, 5  # policies × loads, the loads small; rows without sessions have one
CAPS, WAYS = 7, 6  # simulations of a comparison of prefill caps, of ways to spend a memory budget
SEARCHES = {"none": 3, "throughput": 1, "survival": 3, "routing": 3}  # of load, by what a run is scored as
ANCHORS = {
    "none": 0,
    "throughput": 0,
    "survival": 2,
    "routing": 2,
}  # simulations of what a task is scored between
ANCHOR_SEARCHES = 4  # of a run that is scored by throughput


@dataclass(frozen=True)
class Crowd:
    """How many requests of a recorded trace are open at once, and how often, over all, their answers double what each
    holds for itself alone; None: at most."""

    open_at_once: float
    doublings: float | None


def expected_s(values: Mapping[str, Any]) -> float:
    """Seconds of one core; of a recorded trace the most that a run may take, since parameters do not tell what it
    holds: its runs are long ones."""
    if values["trace"] != "synthetic":
        return MAX_WORK_S
    requests = values["sessions"] * REQUESTS_OF_A_SESSION * values["turns_percent"] / 100
    tokens = requests * values["context_percent"] / 100
    return seconds_of(requests, tokens * INPUT_TOKENS, tokens * OUTPUT_TOKENS, values)


def less_work(values: Mapping[str, Any]) -> str:
    """What makes a run shorter, of what it has: "fewer sessions or turns, or no comparison"."""
    compares = any(values[name] for name in ("compare_policies", "compare_caps", "compare_tiers"))
    found = ["fewer sessions or turns"]
    found += ["a larger token budget", "fewer pipeline stages"] * (values["pipeline_parallel"] > 1)
    found += ["no memory tiers"] * bool(values["host_gb"] or values["pool_gb"])
    found += ["no load search"] * bool(values["search_load"])
    found += ["no comparison"] * compares
    return ", or ".join([", ".join(found[:-1])] * (len(found) > 1) + found[-1:])


def seconds_of(
    requests: float,
    input_tokens: float,
    output_tokens: float,
    values: Mapping[str, Any],
    runs: float | None = None,
    crowd: Crowd | None = None,
) -> float:
    """Of a run over so many requests and tokens, all of them computed.

    runs: of blocks, over all prompts (`traffic/runs.py`); None: as many as drawn sessions have.
    crowd: None: no more than drawn sessions are, which REQUEST_S holds."""
    usual = requests * RUNS_OF_A_REQUEST
    runs = usual if runs is None else runs
    more = max(runs - usual, 0)
    a_request_s = REQUEST_S + REQUEST_S_A_REPLICA * values["replicas"]
    if crowd and requests:
        a_request_s += _seated_s(requests, output_tokens, values["max_requests"], crowd)
    alone = _steps_alone(input_tokens, output_tokens, values)
    a_simulation_s = requests * a_request_s + alone * STEP_S + more * RUN_S
    tiers_s = runs * RUN_IN_TIERS_S * _simulations_with_tiers(values)
    return float(START_S + a_simulation_s * _simulations(values) + tiers_s + more * RUN_ONCE_S)


def _seated_s(requests: float, output_tokens: float, max_requests: int, crowd: Crowd) -> float:
    """Of a mean request beside the others.

    Each time that a request is pushed out, those that stay grow into the blocks that it held alone. So how often it
    comes to that goes with the logarithm of how much it grows.
    """
    seats, tokens = min(crowd.open_at_once, max_requests), output_tokens / requests
    pushed_out = math.log2(1 + tokens) if crowd.doublings is None else crowd.doublings / requests
    stretches_s = (1 + pushed_out) * (STRETCH_S + STRETCH_S_A_SEAT * seats)
    return min(tokens * TOKEN_S, stretches_s) + pushed_out * PUSHED_OUT_S_A_SEAT * seats


def _steps_alone(input_tokens: float, output_tokens: float, values: Mapping[str, Any]) -> float:
    """Steps that no stretch takes together: a pipeline's that read prompts, under a cap as long as others decode."""
    stages = values["pipeline_parallel"]
    if stages == 1:
        return 0.0
    steps = input_tokens / float(values["token_budget"] * stages)
    return steps + output_tokens if values["prefill_cap_tokens"] or values["compare_caps"] else steps


def _simulations(values: Mapping[str, Any]) -> int:
    """At most: the run, its check against a replay, and what it asks for."""
    goal = values["scored_as"]
    searches = SEARCHES[goal] * values["search_load"] + ANCHOR_SEARCHES * (goal == "throughput")
    found = 2 + ANCHORS[goal] + searches * _searched(values["sessions"])
    compared = COMPARED // (1 if values.get("has_sessions", True) else LOADS)
    found += compared * values["compare_policies"] + CAPS * values["compare_caps"]
    return int(found + WAYS * values["compare_tiers"])


def _simulations_with_tiers(values: Mapping[str, Any]) -> int:
    """Of them."""
    ways = WAYS * values["compare_tiers"]
    return int(_simulations(values) if values["host_gb"] or values["pool_gb"] else ways)


def _searched(sessions: int) -> int:
    """Simulations of one load search: its doublings, and the widest bracket behind them."""
    return sessions.bit_length() + 1 + sessions // 2
