"""Each policy on hand-made views of replicas."""

from dataclasses import dataclass, replace

import pytest

from simworkers.agents.serving.policies import POLICIES, Ask, Limits, ReplicaView, Weights, is_saturated

LIMITS = Limits()


@dataclass
class View:
    """A replica as a router sees it."""

    index: int
    queued: int = 0
    running: int = 0
    pending_tokens: int = 0
    kv_held_percent: int = 0
    sessions: int = 0
    cached: int = 0

    def cached_tokens(self) -> int:
        return self.cached


def ask(**changes):
    return Ask(**({"number": 0, "session": 7, "input_tokens": 1000, "last": None, "draw": 0} | changes))


def choose(policy, *rows, limits=LIMITS, **asked):
    """rows: what each replica's view says besides its index."""
    views: list[ReplicaView] = [View(**({"index": index} | row)) for index, row in enumerate(rows)]
    return POLICIES[policy](ask(**asked), views, limits).index


IDLE: tuple[dict[str, int], ...] = ({}, {}, {})


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"consistent_hash"}))
def test_among_equal_replicas_the_first_takes_the_first_request(policy):
    assert choose(policy, *IDLE) == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lone_replica_takes_everything(policy):
    full = {"queued": 99, "running": 99, "pending_tokens": 10**6, "kv_held_percent": 100, "sessions": 9}
    assert choose(policy, full, last=0) == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_replicas_are_told_by_their_index_not_by_their_place(policy):
    """Two of four are down: whoever is chosen, it is one of those that are there."""
    views: list[ReplicaView] = [View(1), View(3)]
    assert POLICIES[policy](ask(last=2, draw=1, number=1), views, LIMITS) in views


def test_random_takes_its_draw_and_round_robin_the_number_of_the_request():
    assert [choose("random", *IDLE, draw=draw) for draw in (0, 1, 2, 2**64 - 1)] == [0, 1, 2, 0]
    assert [choose("round_robin", *IDLE, number=number) for number in range(5)] == [0, 1, 2, 0, 1]


def test_the_least_queue_counts_requests_that_wait_and_that_run():
    assert choose("least_queue", {"queued": 3}, {"queued": 1, "running": 1}, {"running": 3}) == 1


def test_the_fewest_pending_tokens_win_and_load_decides_among_equals():
    rows = {"pending_tokens": 50, "running": 1}, {"pending_tokens": 20, "running": 4}, {"pending_tokens": 20}
    assert choose("least_tokens", *rows) == 2


def test_the_most_free_kv_wins_and_load_decides_among_equals():
    rows = (
        {"kv_held_percent": 30},
        {"kv_held_percent": 10, "running": 2},
        {"kv_held_percent": 10, "running": 1},
    )
    assert choose("most_free_kv", *rows) == 2


def test_the_longest_prefix_wins_whatever_the_load_which_decides_among_equals_only():
    rows = {"cached": 500}, {"cached": 900, "queued": 99}, {"cached": 900, "queued": 98}
    assert choose("longest_prefix", *rows) == 2


@pytest.mark.parametrize(
    ("most", "least", "balances"), [(64, 0, False), (65, 0, True), (300, 201, False), (300, 199, True)]
)
def test_prefixes_decide_until_loads_differ_by_more_than_both_thresholds(most, least, balances):
    chosen = choose("prefix_else_balance", {"cached": 900, "running": most}, {"running": least})
    assert chosen == int(balances)


@pytest.mark.parametrize(("cached", "chosen"), [(500, 0), (499, 1)])
def test_a_prefix_too_short_sends_a_request_where_fewest_sessions_are(cached, chosen):
    rows = {"cached": cached, "sessions": 5}, {"sessions": 2}, {"sessions": 3}
    assert choose("prefix_else_balance", *rows) == chosen


def ring(indices, sessions=range(2000)):
    views: list[ReplicaView] = [View(index) for index in indices]
    return [POLICIES["consistent_hash"](ask(session=one), views, LIMITS).index for one in sessions]


def test_a_replica_that_leaves_a_ring_moves_only_its_own_sessions():
    before, after = ring([0, 1, 2, 3]), ring([0, 1, 3])
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert moved and {old for old, _ in moved} == {2}
    assert {new for _, new in moved} == {0, 1, 3}, "all went to one neighbour"


def test_a_ring_spreads_sessions_over_all_replicas_and_sends_one_session_always_to_the_same():
    found = ring([0, 1, 2, 3])
    assert min(found.count(index) for index in range(4)) > 300
    assert found == ring([0, 1, 2, 3])


def test_session_1_and_session_12_are_two():
    """Routing by a prefix of the name would never part 1 from 12, 2 from 23 and so on."""
    alike = [
        a == b for a, b in zip(ring(range(16), range(1, 9)), ring(range(16), range(12, 99, 11)), strict=True)
    ]
    assert not alike[0] and sum(alike) < 4


def test_a_ring_sees_no_load():
    rows = [
        {"queued": 10**6, "kv_held_percent": 100} if index == ring([0, 1, 2])[7] else {} for index in range(3)
    ]
    assert choose("consistent_hash", *rows, session=7) == choose("consistent_hash", *IDLE, session=7)


STICKY = ["sticky", "sticky_least_queue", "sticky_override", "sticky_spill"]


@pytest.mark.parametrize("policy", STICKY)
def test_a_session_stays_where_it_was(policy):
    assert choose(policy, {}, {}, {"sessions": 3, "running": 1}, last=2) == 2


@pytest.mark.parametrize("policy", STICKY)
def test_a_session_whose_replica_is_gone_goes_to_one_that_is_there(policy):
    assert choose(policy, {"running": 1, "sessions": 1}, {}, last=7) == 1


def test_new_sessions_are_counted_by_sticky_and_overlooked_by_the_queue_between_turns():
    rows = {"sessions": 5}, {"sessions": 0}
    assert choose("sticky", *rows) == 1
    assert choose("sticky_least_queue", *rows) == 0


@pytest.mark.parametrize(
    ("own", "least", "moves"),
    [(2, 1, False), (3, 1, True), (2, 0, False), (3, 0, True), (8, 4, False), (9, 4, True)],
)
def test_a_session_moves_off_a_replica_with_more_than_twice_the_least_load(own, least, moves):
    assert choose("sticky_override", {"running": own}, {"running": least}, last=0) == int(moves)


@pytest.mark.parametrize(
    ("view", "saturated"),
    [
        ({"queued": 3}, False),
        ({"queued": 4}, True),
        ({"kv_held_percent": 89}, False),
        ({"kv_held_percent": 90, "running": 2}, True),
        ({"running": 500}, False),
    ],
)
def test_saturation_sees_the_queue_and_the_kv(view, saturated):
    assert is_saturated(View(0, **view), LIMITS) is saturated
    assert choose("sticky_spill", view, {}, last=0) == int(saturated)


def test_a_spilling_session_goes_to_the_least_loaded_replica_that_is_not_saturated():
    rows = {"queued": 4}, {"queued": 4}, {"running": 3}, {"running": 2}
    assert choose("sticky_spill", *rows, last=0) == 3


def test_where_all_are_saturated_a_session_stays_and_a_new_one_takes_the_fewest_tokens():
    rows = [{"queued": 5, "pending_tokens": tokens} for tokens in (90, 30, 60)]
    assert choose("sticky_spill", *rows, last=2) == 2
    assert choose("sticky_spill", *rows) == 1


def weighted(*rows, last=None, **weights):
    own = Weights(**({"cached": 0.0} | weights))
    return choose("weighted", *rows, last=last, limits=replace(LIMITS, weights=own))


@pytest.mark.parametrize(
    ("weight", "better", "worse"),
    [
        ("cached", {"cached": 500}, {"cached": 100}),
        ("queued", {"queued": 1}, {"queued": 2}),
        ("pending_tokens", {"pending_tokens": 10}, {"pending_tokens": 900}),
        ("kv_held", {"kv_held_percent": 3}, {"kv_held_percent": 60}),
    ],
)
def test_each_weight_of_a_score_decides_alone_and_turns_round_with_its_sign(weight, better, worse):
    assert weighted(worse, better, **{weight: 1.0}) == 1
    assert weighted(worse, better, **{weight: -1.0}) == 0
    assert weighted(worse, better) == 0


def test_a_score_for_the_same_replica_keeps_a_session_until_loads_outweigh_it():
    assert weighted({}, {}, last=1, same_replica=1.0) == 1
    assert weighted({"queued": 1}, {"queued": 9}, last=1, same_replica=1.0, queued=1.0) == 0


def test_equal_scores_go_where_fewest_sessions_are():
    assert weighted({"sessions": 2}, {"sessions": 1}, {"sessions": 1}) == 1
