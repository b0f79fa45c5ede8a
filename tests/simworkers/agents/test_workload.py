"""A trace as turns: who waits for whom, for how long, and what an answer leaves behind."""

import pytest

from simworkers.agents.serving.workload import (
    build_workload,
    each_row_a_session,
    one_after_another,
    requests_in_order,
)
from simworkers.agents.traffic.flags import RECORDED, Flags
from tests.simworkers.agents.scenes import growing, request, session, subagent, trace_of


def served(row, service_s):
    return row | {"api_time": service_s}


def workload(*rows, **options):
    return build_workload(trace_of(session(*rows)), **options)


def test_turns_of_one_agent_are_one_stream_in_order():
    made = build_workload(trace_of(growing(3), growing(2)))
    assert made.streams == [(0, 3), (3, 5)]
    assert [(turn.session, turn.stream, turn.index) for turn in made.turns] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 0, 2),
        (1, 1, 0),
        (1, 1, 1),
    ]
    assert made.begins == [[0], [1]]


def test_requests_without_sessions_are_one_stream_and_their_gaps_are_think_times():
    rows = (
        {"timestamp": at, "input_length": 512, "output_length": 1, "hash_ids": [at]} for at in (0, 20, 50)
    )
    made = build_workload(trace_of(*rows))
    assert (made.streams, made.begins, made.starts) == ([(0, 3)], [[0]], {})
    assert [turn.think_us for turn in made.turns] == [0, 20_000, 30_000]


def test_rows_without_sessions_can_come_each_at_its_time_and_share_their_ids():
    rows = ({"timestamp": at, "input_length": 512, "output_length": 1, "hash_ids": [7]} for at in (0, 20))
    made = build_workload(each_row_a_session(trace_of(*rows)))
    assert (made.begins, made.arrivals_us) == ([[0], [1]], [0, 20_000])
    assert made.turns[0].chain == made.turns[1].chain


def test_subagents_that_stand_behind_one_request_run_side_by_side():
    made = workload(
        request(0, [0]),
        subagent(1, request(0, [10]), name="a"),
        subagent(2, request(0, [20]), request(1, [20, 21]), name="b"),
        request(9, [0, 1]),
    )
    assert made.streams == [(0, 2), (2, 3), (3, 5)]
    assert made.starts == {0: [1, 2]}
    assert made.begins == [[0]]


def test_the_turns_of_an_agent_whose_requests_stand_out_of_order_are_those_by_time():
    made = workload(request(5, [0], out=2), request(2, [0], out=1), request(5, [0], out=3))
    assert [turn.output_tokens for turn in made.turns] == [1, 2, 3]
    assert [turn.think_us for turn in made.turns] == [0, 3_000_000, 0]


def test_an_answer_is_left_to_the_agents_next_prompt_by_time():
    made = workload(request(5, [0, 1, 2]), request(2, [0], out=9))
    assert sum(made.run_lengths[run] for run in made.turns[0].kept) == 2


def test_a_subagent_starts_behind_the_request_in_front_of_it_wherever_that_one_moves_by_time():
    made = workload(request(5, [0]), subagent(6, request(0, [10])), request(2, [0]))
    assert (made.streams, made.starts) == ([(0, 2), (2, 3)], {1: [1]})


def test_a_subagent_in_front_of_its_parent_opens_it():
    made = workload(subagent(0, request(0, [10])), request(5, [0]))
    assert (made.begins, made.starts, made.opens) == ([[1]], {}, {1: [0]})
    assert [turn.think_us for turn in made.turns] == [0, 5_000_000]


def test_an_agent_whose_parent_sends_nothing_starts_behind_the_sessions_own_request():
    inner = subagent(1, request(0, [20]), name="inner")
    made = workload(request(0, [0]), subagent(2, inner, name="outer"), request(9, [0]))
    assert (made.begins, made.starts, made.opens) == ([[0]], {0: [1]}, {})
    assert made.turns[2].think_us == 3_000_000


def test_rows_count_their_times_from_the_first():
    rows = (
        {"timestamp": at, "input_length": 512, "output_length": 1, "hash_ids": [7]} for at in (1000, 1020)
    )
    assert build_workload(each_row_a_session(trace_of(*rows))).arrivals_us == [0, 20_000]


def test_a_subagent_of_a_subagent_starts_behind_its_own_parent():
    inner = subagent(0, request(0, [20]), name="inner")
    made = workload(request(0, [0]), subagent(1, request(0, [10]), inner, name="outer"), request(9, [0]))
    outer, deepest = made.starts[0][0], made.starts[made.streams[1][0]][0]
    assert (outer, deepest) == (1, 2)


def test_a_think_time_is_what_lies_between_an_answer_and_the_next_request():
    made = workload(served(request(0, [0]), 3), request(10, [0, 1]))
    assert [turn.think_us for turn in made.turns] == [0, 7_000_000]


def test_a_parent_thinks_from_the_end_of_its_last_subagent():
    made = workload(
        served(request(0, [0]), 1),
        subagent(2, served(request(0, [10]), 1), name="a"),
        subagent(2, served(request(0, [20]), 5), name="b"),
        request(10, [0, 1]),
    )
    assert [turn.think_us for turn in made.turns] == [0, 3_000_000, 1_000_000, 1_000_000]


def test_a_think_time_that_the_trace_names_is_the_most():
    made = workload(request(0, [0]), request(10, [0]) | {"think_time": 2})
    assert made.turns[1].think_us == 2_000_000


def test_a_request_recorded_before_the_answer_ended_is_sent_at_once():
    made = workload(served(request(0, [0]), 30), request(10, [0, 1]))
    assert made.turns[1].think_us == 0


@pytest.mark.parametrize(
    ("options", "think_us"),
    [
        ({}, 10_000_000),
        ({"think_percent": 50}, 5_000_000),
        ({"think_percent": 0}, 0),
        ({"think_at_most_us": 4_000_000}, 4_000_000),
    ],
)
def test_think_times_are_scaled_and_then_cut(options, think_us):
    assert workload(request(0, [0]), request(10, [0]), **options).turns[1].think_us == think_us


@pytest.mark.parametrize(
    ("out", "kept_blocks"),
    [(4, 0), (5, 1), (8, 1), (9, 2), (100, 3)],
    ids=["last token has no KV", "one block", "not yet two", "two blocks", "as far as the next prompt goes"],
)
def test_an_answer_leaves_the_whole_blocks_that_the_next_prompt_goes_on_with(out, kept_blocks):
    made = workload(request(0, [0, 1], out), request(1, [0, 1, 2, 3, 4]))
    assert sum(made.run_lengths[run] for run in made.turns[0].kept) == kept_blocks


def test_the_rest_of_a_prompt_and_its_answer_fill_a_block_together():
    made = workload(request(0, [0, 1], 3, more=2), request(1, [0, 1, 2, 3]))
    assert sum(made.run_lengths[run] for run in made.turns[0].kept) == 1


@pytest.mark.parametrize(
    "following", [[0, 9, 2, 3], [0], [7, 8, 9]], ids=["other blocks", "cut back", "another context"]
)
def test_an_answer_leaves_nothing_where_the_next_prompt_does_not_go_on_behind_it(following):
    made = workload(request(0, [0, 1], 9), request(1, following))
    assert made.turns[0].kept == ()


def test_an_answer_leaves_nothing_where_answers_are_not_kept():
    made = workload(request(0, [0, 1], 9), request(1, [0, 1, 2, 3]), flags=Flags(cache_outputs=False))
    assert made.turns[0].kept == ()


def test_partly_filled_blocks_and_whole_prompts_count_as_the_flags_say():
    rows = [request(0, [0, 1], more=0), request(1, [0, 1]) | {"in": 6}]
    by_rate, by_record = workload(*rows), workload(*rows, flags=RECORDED)
    assert [(turn.blocks, turn.hit_cap) for turn in by_rate.turns] == [(2, 1), (1, 1)]
    assert [(turn.blocks, turn.hit_cap) for turn in by_record.turns] == [(2, 2), (2, 2)]


def test_repeated_ids_count_as_blocks_but_not_as_different_ones():
    (turn,) = workload(request(0, [5, 6, 5, 7])).turns
    assert (turn.blocks, turn.distinct_blocks) == (4, 3)


def test_sessions_of_two_block_sizes_cannot_share_a_cache():
    with pytest.raises(ValueError, match="blocks of 4 and 8 tokens"):
        build_workload(
            trace_of(growing(1), session({"t": 0, "in": 8, "out": 1, "hash_ids": [0]}, block_size=8))
        )


def test_one_after_another_puts_the_turns_of_all_sessions_in_order_of_time():
    trace = trace_of(
        session(request(0, [0], out=1), request(5, [0], out=2)),
        session(request(2, [0], out=3), request(9, [0], out=4)),
    )
    made = one_after_another(build_workload(trace), trace)
    assert [turn.output_tokens for turn in made.turns] == [1, 3, 2, 4]
    assert (made.streams, made.begins, made.starts) == ([(0, 4)], [[0]], {})
    assert {turn.think_us for turn in made.turns} == {0}


def test_the_recorded_request_behind_each_turn_is_named_in_order_of_the_turns():
    trace = trace_of(
        session(request(0, [0], out=1), subagent(1, request(0, [9], out=2)), request(5, [0], out=3))
    )
    outputs = [request.output_tokens for _, request in requests_in_order(trace)]
    assert outputs == [turn.output_tokens for turn in build_workload(trace).turns] == [1, 3, 2]


def test_an_answer_does_not_leave_again_the_partly_filled_block_that_keeps_its_id_once_it_is_full():
    flags = Flags(full_hit_recompute=False, cache_outputs=True, partial_blocks=True, clip_oversize=True)
    rows = (request(0, [0, 1, 2], more=-2, out=9), request(5, [0, 1, 2, 3, 4]), request(9, [0, 1, 9]))
    made = workload(*rows, flags=flags)  # the last prompt leaves the others in front of that block
    first = made.turns[0]
    assert not set(first.chain.runs) & set(first.kept)
    assert sum(made.run_lengths[run] for run in first.kept) == 1
