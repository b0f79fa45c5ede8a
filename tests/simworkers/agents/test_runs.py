"""Runs of blocks: what a cache may handle as one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simworkers.agents.traffic.runs import Chain, RunBook, common_length, split_into_runs
from tests.simworkers.agents import scenes

streams = st.lists(st.lists(scenes.ids, min_size=1, max_size=4), min_size=1, max_size=4)


def split(*prompts, ends=()):
    """Each stream a list of prompts, each prompt a list of ids."""
    book = RunBook()
    arrays = [[np.array(ids, dtype=np.int64) for ids in stream] for stream in prompts]
    return split_into_runs(arrays, ends, book), book.lengths


def without_repeats(ids):
    return list(dict.fromkeys(ids))


def ids_of_runs(prompts, chains, lengths):
    """Run → its ids, read off the first prompt that has it."""
    found: dict[int, list[int]] = {}
    for stream, rows in zip(prompts, chains, strict=True):
        for ids, chain in zip(stream, rows, strict=True):
            place, plain = 0, without_repeats(ids)
            for run in chain.runs:
                found.setdefault(run, plain[place : place + lengths[run]])
                place += lengths[run]
    return found


@given(streams)
def test_chains_rebuilt_from_their_runs_are_the_prompts_without_repeats(prompts):
    chains, lengths = split(*prompts)
    known = ids_of_runs(prompts, chains, lengths)
    for stream, rows in zip(prompts, chains, strict=True):
        for ids, chain in zip(stream, rows, strict=True):
            assert [one for run in chain.runs for one in known[run]] == without_repeats(ids)


@given(streams)
def test_a_prompt_holds_a_run_wholly_and_in_order_or_not_at_all(prompts):
    chains, lengths = split(*prompts)
    known = ids_of_runs(prompts, chains, lengths)
    assert all(len(ids) == lengths[run] for run, ids in known.items())
    for ids in (ids for stream in prompts for ids in stream):
        plain = without_repeats(ids)
        for run in known.values():
            if set(run) & set(plain):
                start = plain.index(run[0])
                assert plain[start : start + len(run)] == run


@given(streams)
def test_leading_places_count_repeats_as_a_walk_over_the_prompt_does(prompts):
    chains, _ = split(*prompts)
    for stream, rows in zip(prompts, chains, strict=True):
        for ids, chain in zip(stream, rows, strict=True):
            plain = without_repeats(ids)
            for found in range(len(plain) + 1):
                cached = set(plain[:found])
                walked = next((place for place, one in enumerate(ids) if one not in cached), len(ids))
                assert chain.leading_places(found, len(ids)) == walked


def test_a_context_that_only_grows_becomes_one_run_a_turn():
    chains, lengths = split([list(range(5)), list(range(9)), list(range(20))])
    assert [chain.runs for chain in chains[0]] == [(0,), (0, 1), (0, 1, 2)]
    assert lengths == [5, 4, 11]


def test_a_run_ends_where_two_contexts_part():
    chains, lengths = split([[1, 2, 3, 4]], [[1, 2, 8, 9]])
    assert [chains[0][0].runs, chains[1][0].runs] == [(0, 1), (0, 2)]
    assert lengths == [2, 2, 2]


def test_a_run_ends_where_an_answer_ends():
    chains, lengths = split([[1, 2], [1, 2, 3, 4, 5]], ends=[(0, 1, 4)])
    assert chains[0][1].runs == (0, 1, 2)
    assert lengths == [2, 2, 1]


def test_shuffled_ids_become_runs_of_one_block():
    chains, lengths = split([[1, 2, 3], [3, 1, 2], [2, 1, 3]])
    assert set(lengths) == {1}
    assert [len(chain.runs) for chain in chains[0]] == [3, 3, 3]


def test_streams_that_share_a_beginning_share_its_run_and_a_stream_of_its_own_shares_none():
    chains, _ = split([[1, 2, 3]], [[1, 2, 4]], [[7, 8]])
    runs = [set(rows[0].runs) for rows in chains]
    assert runs[0] & runs[1] and not (runs[0] | runs[1]) & runs[2]


def test_an_empty_prompt_has_no_runs():
    chains, lengths = split([[], [1], []])
    assert [chain.runs for chain in chains[0]] == [(), (0,), ()]
    assert lengths == [1]


@given(scenes.ids, scenes.ids)
def test_the_common_length_is_that_of_the_common_beginning(old, new):
    walked = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    assert common_length(np.array(old, dtype=np.int64), np.array(new, dtype=np.int64)) == walked


def test_different_ids_before_a_place_are_counted_once():
    assert Chain((), places=(0, 1, 4)).distinct_before(3) == 2
    assert Chain((0,)).distinct_before(3) == 3
