"""Which turn is sent when."""

from simworkers.agents.serving.cost import FS_PER_US
from simworkers.agents.serving.sessions import Sessions
from simworkers.agents.serving.workload import build_workload, each_row_a_session
from tests.simworkers.agents.scenes import growing, play, request, session, setup, subagent, trace_of


def sessions_of(*rows, at_once=1, start_gap=0):
    return Sessions(build_workload(trace_of(*rows)), at_once, start_gap)


def turns(sent):
    return [turn for _, turn in sent]


def test_as_many_sessions_begin_as_are_let_in_at_once():
    assert turns(sessions_of(growing(1), growing(1), growing(1), at_once=2).begin()) == [0, 1]


def test_first_sessions_begin_one_gap_after_another():
    begun = sessions_of(growing(1), growing(1), growing(1), at_once=3, start_gap=5).begin()
    assert begun == [(0, 0), (5, 1), (10, 2)]


def test_the_next_session_begins_when_one_ends():
    one = sessions_of(growing(1), growing(1), growing(1), at_once=2)
    one.begin()
    assert one.finish(1, 70) == [(70, 2)]
    assert one.take_ended() == [1]
    assert one.take_ended() == []


def test_a_turn_is_sent_when_the_one_before_has_ended_and_its_agent_has_thought():
    one = sessions_of(growing(3, gap_s=2))
    one.begin()
    assert one.finish(0, 7) == [(7 + 2_000_000 * FS_PER_US, 1)]


def test_a_parent_waits_for_the_last_of_the_subagents_it_started():
    one = sessions_of(
        session(
            request(0, [0]),
            subagent(0, request(0, [10]), name="a"),
            subagent(0, request(0, [20]), request(0, [21]), name="b"),
            request(0, [0, 1]),
        )
    )
    assert turns(one.begin()) == [0]
    assert turns(one.finish(0, 1)) == [2, 3]  # both at once
    assert turns(one.finish(3, 2)) == [4]
    assert turns(one.finish(2, 3)) == []  # the other still runs
    assert turns(one.finish(4, 4)) == [1]
    assert not one.is_over
    assert turns(one.finish(1, 5)) == []
    assert one.is_over


def test_a_grandparent_waits_through_its_child_for_its_grandchild():
    grandchild = subagent(0, request(0, [20]), name="c")
    one = sessions_of(
        session(request(0, [0]), subagent(0, request(0, [10]), grandchild, name="b"), request(0, [0, 1]))
    )
    one.begin()
    assert turns(one.finish(0, 1)) == [2]
    assert turns(one.finish(2, 2)) == [3]
    assert turns(one.finish(3, 3)) == [1]


def test_an_agent_that_opens_with_a_subagent_waits_for_it_before_its_first_request():
    inner = subagent(0, request(0, [20]), name="inner")
    one = sessions_of(
        session(request(0, [0]), subagent(0, inner, request(0, [10]), name="outer"), request(0, [0, 1]))
    )
    one.begin()
    assert turns(one.finish(0, 1)) == [2]  # the inner one's
    assert turns(one.finish(2, 2)) == [3]  # the outer one's, which the session's own agent waits for
    assert turns(one.finish(3, 3)) == [1]
    one.finish(1, 4)
    assert one.is_over


def test_a_session_may_open_with_a_subagent():
    one = sessions_of(session(subagent(0, request(0, [10])), request(20, [0])))
    assert turns(one.begin()) == [0]
    assert one.finish(0, 5) == [(5 + 20_000_000 * FS_PER_US, 1)]
    one.finish(1, 6)
    assert one.is_over


def test_a_subagent_behind_its_parents_last_request_keeps_the_session_open():
    one = sessions_of(session(request(0, [0]), subagent(0, request(0, [10]))), growing(1))
    one.begin()
    assert turns(one.finish(0, 1)) == [1]
    assert not one.take_ended()
    assert turns(one.finish(1, 2)) == [2]
    assert one.take_ended() == [0]


def test_every_turn_is_sent_once_and_none_before_what_it_waits_for():
    rows = [
        session(
            request(0, [0]),
            subagent(0, request(0, [10]), request(1, [10, 11]), name="a"),
            subagent(0, request(0, [20]), name="b"),
            request(3, [0, 1]),
        )
        for _ in range(5)
    ]
    workload = build_workload(trace_of(*rows))
    outcome = play(workload, setup(sessions_at_once=2))
    ended = {one.turn.number: one.finished_at or 0 for one in outcome.requests}
    sent = {one.turn.number: one.sent_at for one in outcome.requests}
    assert sorted(sent) == [turn.number for turn in workload.turns]
    for first, stop in workload.streams:
        for turn in range(first + 1, stop):
            children = [workload.streams[stream] for stream in workload.starts.get(turn - 1, ())]
            waited = [ended[turn - 1], *(ended[stop - 1] for _, stop in children)]
            assert sent[turn] == max(waited) + workload.turns[turn].think_us * FS_PER_US


def test_no_more_sessions_are_open_than_are_let_in_at_once():
    outcome = play(build_workload(trace_of(*(growing(3) for _ in range(7)))), setup(sessions_at_once=3))
    spans = [
        (outcome.requests[3 * n].sent_at, outcome.requests[3 * n + 2].finished_at or 0) for n in range(7)
    ]
    assert max(sum(start <= at < end for start, end in spans) for at, _ in spans) == 3


def test_rows_all_begin_as_long_after_the_first_as_they_were_recorded():
    rows = ({"timestamp": at, "input_length": 512, "output_length": 1, "hash_ids": [at]} for at in (5, 9, 9))
    made = build_workload(each_row_a_session(trace_of(*rows)))
    assert Sessions(made, at_once=1).begin() == [
        (0, 0),
        (4000 * FS_PER_US, 1),
        (4000 * FS_PER_US, 2),
    ]
