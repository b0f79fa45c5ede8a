"""A replica catches up with its steps only once a router looks."""

from hypothesis import given, settings

from simworkers.agents.serving.cluster import Cluster
from simworkers.agents.serving.workload import build_workload
from tests.simworkers.agents import scenes


def play_looking_at_all(workload, setup):
    """The router reads everything of every replica before it chooses."""
    cluster = Cluster(workload, setup)
    choose = cluster.policy

    def look_and_choose(ask, replicas, limits):
        for replica in replicas:
            seen_first = replica.pending_tokens
            assert replica.kv_held_percent <= 100  # by now it has caught up, whatever it does
            assert replica.pending_tokens == seen_first >= 0
            assert replica.cached_tokens() <= ask.input_tokens
        return choose(ask, replicas, limits)

    cluster.policy = look_and_choose
    return cluster.play()


@settings(max_examples=100, deadline=None)
@given(scenes.traces, scenes.flags, scenes.setups)
def test_a_router_changes_nothing_by_looking(trace, flags, setup):
    workload = build_workload(trace, flags)
    looked_at, left_alone = play_looking_at_all(workload, setup), scenes.play(workload, setup)
    assert scenes.facts(looked_at) == scenes.facts(left_alone)
    assert looked_at.samples == left_alone.samples
