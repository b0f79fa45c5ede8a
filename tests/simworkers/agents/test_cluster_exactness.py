"""The cluster against itself on naive caches, step by step, and against a replay of the same trace."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.agents.measure import ceiling, hit_rate
from simworkers.agents.serving.replica import Schedule
from simworkers.agents.serving.workload import build_workload, one_after_another
from simworkers.agents.traffic.flags import RECORDED, Flags
from simworkers.agents.traffic.replay import prepare, replay
from simworkers.agents.traffic.traces import read_trace
from tests.simworkers.agents import scenes
from tests.simworkers.agents.naive_cache import NaiveCache
from tests.simworkers.golden import load_golden, shared_file


@settings(max_examples=300, deadline=None)
@given(scenes.traces, scenes.flags, scenes.setups)
def test_caches_by_runs_give_every_turn_what_caches_by_blocks_give(trace, flags, setup):
    workload = build_workload(trace, flags)
    by_runs, by_blocks = scenes.play(workload, setup), scenes.play(workload, setup, NaiveCache)
    assert scenes.facts(by_runs) == scenes.facts(by_blocks)


def test_a_clipped_answer_that_fills_a_block_named_by_its_prompt_leaves_that_block_once():
    flags = Flags(full_hit_recompute=False, partial_blocks=True, clip_oversize=True)
    rows = (scenes.request(5, [3, 0], more=-1, out=500), scenes.request(60, [3, 0]))
    trace = scenes.trace_of(scenes.session(scenes.subagent(0, scenes.request(0, [0])), *rows))
    workload, setup = build_workload(trace, flags), scenes.setup(policy="round_robin")
    by_runs, by_blocks = scenes.play(workload, setup), scenes.play(workload, setup, NaiveCache)
    assert scenes.facts(by_runs) == scenes.facts(by_blocks)


@settings(max_examples=300, deadline=None)
@given(scenes.traces, scenes.flags, scenes.setups)
def test_stretches_of_steps_give_every_turn_what_single_steps_give(trace, flags, setup):
    workload = build_workload(trace, flags)
    in_stretches, alone = scenes.play(workload, setup), scenes.play(workload, scenes.every_step_alone(setup))
    assert scenes.facts(in_stretches) == scenes.facts(alone)


def hits_of_a_lone_replica(trace, flags, capacity):
    """Hit blocks of every request, in the order in which they were recorded, each alone."""
    workload = one_after_another(build_workload(trace, flags), trace)
    setup = scenes.setup(
        replicas=1,
        kv_blocks=capacity,
        schedule=Schedule(decode_takes_room=False),
        cost=scenes.cost(token_budget=8192),
    )
    outcome = scenes.play(workload, setup)
    return [one.found.hbm for one in outcome.requests if one.found is not None]


@settings(max_examples=600, deadline=None)
@given(st.one_of(scenes.traces, scenes.unsorted_traces), scenes.flags, st.integers(1, 40))
def test_one_replica_and_no_concurrency_hit_what_a_replay_hits_under_the_same_flags(trace, flags, capacity):
    expected = replay(prepare(trace, flags, capacity), capacity)
    served = [hit for number, hit in enumerate(expected.per_request) if number not in set(expected.refused)]
    assert hits_of_a_lone_replica(trace, flags, capacity) == served


@settings(max_examples=200, deadline=None)
@given(scenes.lone_agents, scenes.flags, scenes.setups)
def test_no_hit_rate_lies_above_the_ceiling_where_each_session_is_one_agent_with_ids_of_its_own(
    trace, flags, setup
):
    """Elsewhere who comes first decides what the next one finds, and the trace's order need not be the cluster's."""
    workload = build_workload(trace, flags)
    outcome = scenes.play(workload, setup)
    assert hit_rate(workload, outcome) <= ceiling(one_after_another(workload, trace))


@pytest.mark.parametrize("capacity", [4096, 16384, 32768])
def test_a_lone_replica_finds_the_recorded_hits_of_the_recorded_sessions(capacity):
    with shared_file("traces/agent_sessions.jsonl.gz").open("rb") as file:
        trace = read_trace(file)
    (expected,) = [r for r in load_golden("lru_replay.json")["results"] if r["capacity_blocks"] == capacity]
    assert sum(hits_of_a_lone_replica(trace, RECORDED, capacity)) == expected["hit_blocks"]
