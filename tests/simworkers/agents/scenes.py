"""Small workloads and clusters for tests, and strategies that make them up."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from simworkers.agents.serving.cluster import Cluster, Outcome, Setup, Tiers
from simworkers.agents.serving.cost import StepCost
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.serving.replica import Schedule
from simworkers.agents.serving.run_cache import RunCache
from simworkers.agents.serving.workload import Workload
from simworkers.agents.traffic.flags import Flags
from simworkers.agents.traffic.traces import Trace, read_trace
from simworkers.hardware import GPUS

BLOCK = 4


def cost(**changes: Any) -> StepCost:
    values = {"token_budget": 32, "step_overhead_us": 100} | changes
    return StepCost(MODELS["qwen3-30b-a3b"], GPUS["h200"], **values)


def setup(**changes: Any) -> Setup:
    values: dict[str, Any] = {"replicas": 2, "kv_blocks": 40, "cost": cost(), "sessions_at_once": 4} | changes
    return Setup(**values)


def trace_of(*sessions: dict[str, Any]) -> Trace:
    return read_trace(io.BytesIO("\n".join(map(json.dumps, sessions)).encode()))


def request(t: float, ids: list[int], out: int = 3, more: int = 0) -> dict[str, Any]:
    """more: tokens behind the whole blocks; below 0, so many that the last one lacks, which has an id all the same."""
    return {"t": t, "in": max(len(ids) * BLOCK + more, 0), "out": out, "hash_ids": ids}


def session(*requests: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"id": "s", "block_size": BLOCK, "requests": list(requests)} | others


def subagent(t: float, *requests: dict[str, Any], name: str = "a") -> dict[str, Any]:
    return {"type": "subagent", "t": t, "agent_id": name, "requests": list(requests)}


def growing(turns: int, first: int = 3, step: int = 2, gap_s: float = 1.0, out: int = 3) -> dict[str, Any]:
    """A session whose context grows by a few blocks a turn."""
    return session(*(request(t * gap_s, list(range(first + step * t)), out) for t in range(turns)))


def play(workload: Workload, setup: Setup, cache_type: type[RunCache] = RunCache) -> Outcome:
    outcome = Cluster(workload, setup, cache_type=cache_type).play()
    for replica in outcome.replicas:
        replica.memory.check_integrity()
        assert not replica.cache.used_blocks or outcome.end_us == setup.horizon_us
    return outcome


def facts(outcome: Outcome) -> list[tuple[Any, ...]]:
    """All that a turn's way is known by."""
    return [
        (
            one.turn.number,
            one.replica,
            one.found,
            one.sent_at,
            one.admitted_at,
            one.first_token_at,
            one.finished_at,
            one.blocked_fs,
            one.preemptions,
            one.retries,
        )
        for one in outcome.requests
    ]


ids = st.one_of(
    st.integers(1, 12).map(lambda length: list(range(length))),
    st.tuples(st.integers(1, 8), st.integers(0, 8)).map(
        lambda cut: [*range(cut[0]), *range(20, 20 + cut[1])]
    ),
    st.tuples(st.integers(1, 9), st.integers(0, 9)).map(lambda cut: [*range(cut[0]), *range(5, 5 + cut[1])]),
    st.lists(st.integers(0, 6), max_size=8),
)
requests = st.builds(
    lambda ids, t, out, more: request(t, ids, out, more),
    ids,
    st.integers(0, 3).map(float),
    st.integers(0, 30),
    st.integers(1 - BLOCK, BLOCK - 1),
)


def by_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["t"])


def sessions_with(
    order: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
) -> st.SearchStrategy[dict[str, Any]]:
    """order: of the requests of a session's own agent."""
    return st.builds(
        lambda rows, opening, children, scope: session(
            *(subagent(0.0, *child, name=f"o{place}") for place, child in enumerate(opening)),
            *order(rows)[:2],
            *(subagent(1.0, *child, name=f"a{place}") for place, child in enumerate(children)),
            *order(rows)[2:],
            hash_id_scope=scope,
        ),
        st.lists(requests, min_size=1, max_size=6),
        st.lists(st.lists(requests, min_size=1, max_size=2), max_size=1),
        st.lists(st.lists(requests, min_size=1, max_size=2), max_size=2),
        st.sampled_from(["local", "global"]),
    )


def traces_of(rows: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Trace]:
    return st.lists(rows, min_size=1, max_size=6).map(lambda sessions: trace_of(*sessions))


traces = traces_of(sessions_with(by_time))
unsorted_traces = traces_of(sessions_with(list))
# Of sessions without subagents, unsorted too.
lone_agents = traces_of(st.lists(requests, min_size=1, max_size=6).map(lambda rows: session(*rows)))
flags = st.builds(Flags, st.booleans(), st.booleans(), st.booleans(), st.booleans())
setups = st.builds(
    lambda policy, replicas, blocks, at_once, tiers, schedule, cost: setup(
        policy=policy,
        replicas=replicas,
        kv_blocks=blocks,
        sessions_at_once=at_once,
        tiers=tiers,
        schedule=schedule,
        cost=cost,
    ),
    st.sampled_from(["round_robin", "longest_prefix", "sticky_spill", "least_tokens", "weighted", "random"]),
    st.integers(1, 3),
    st.integers(10, 60),
    st.integers(1, 5),
    st.builds(
        lambda host, pool, rate: Tiers(host, rate, pool, rate),
        st.sampled_from([0, 7, 30]),
        st.sampled_from([0, 11, 50]),
        st.sampled_from([1e6, 1e9]),
    ),
    st.builds(Schedule, st.integers(1, 5), st.sampled_from([0, 8]), st.booleans()),
    st.sampled_from([cost(), cost(token_budget=5), cost(pipeline_parallel=2), cost(tensor_parallel=2)]),
)


def every_step_alone(one: Setup) -> Setup:
    return replace(one, schedule=replace(one.schedule, longest_stretch=1))
