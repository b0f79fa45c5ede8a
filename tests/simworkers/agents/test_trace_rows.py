"""A line that is parsed in parts says what the plain parser says, whatever was done to it."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simworkers.agents.traffic import trace_rows
from simworkers.agents.traffic.trace_fields import Refused
from simworkers.agents.traffic.trace_rows import parse_line, parse_plainly


def with_lists(found: Any) -> Any:
    """Arrays as lists, told from lists no more."""
    if isinstance(found, dict):
        return {name: with_lists(one) for name, one in found.items()}
    if isinstance(found, np.ndarray):
        return found.tolist()
    return [with_lists(one) for one in found] if isinstance(found, list) else found


def outcome(parse, line):
    try:
        return repr(with_lists(parse(line)))  # 1, 1.0 and True are not alike
    except Refused as error:
        return str(error)


def line_of(*lists, **others):
    rows = [{"t": n, "in": 4 * len(ids), "hash_ids": ids} for n, ids in enumerate(lists)]
    return json.dumps({"id": "s", "requests": rows} | others).encode()


prompts = st.lists(
    st.one_of(
        st.integers(0, 12).map(lambda length: list(range(length))),
        st.tuples(st.integers(0, 8), st.integers(0, 8)).map(
            lambda cut: [*range(cut[0]), *range(7, 7 + cut[1])]
        ),
        st.lists(st.integers(-3, 2**70), max_size=4),
        st.lists(st.sampled_from([1, 12, 123, 1.0, True, None, "1", [1]]), max_size=4),
    ),
    min_size=1,
    max_size=6,
)
scraps = st.sampled_from(
    [b"", b",", b"[", b"]", b'"', b"\\", b"0", b"1", b" ", b"\n", b"-", b"{", b"}", b"hash_ids", b'"hash_ids": [1, 2]',
     b'"hash_ids": 0', b'"hash\\u005fids"', b"true", b", , ", b"\xff"]
)  # fmt: skip
mutations = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), scraps), max_size=3)


@settings(max_examples=1500, deadline=None)
@given(prompts, mutations)
@example([[1], [1, 2]], [])
def test_a_mutated_line_is_what_the_plain_parser_makes_of_it(lists, changes):
    line = line_of(*lists)
    for at, length, scrap in changes:
        line = line[: at % (len(line) + 1)] + scrap + line[at % (len(line) + 1) + length :]
    assert outcome(parse_line, line) == outcome(parse_plainly, line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": {"hash_ids": [1, 2]}, "requests": [{"hash_ids": [1, 2, ]}]}',
        b'{"a": {"hash_ids": [1]}, "requests": [{"hash_ids": [12]}, {"hash_ids": [1, 2]}]}',
        b'{"a": {"hash_ids": [1]}, "requests": [{"hash_ids": [1,]}, {"hash_ids": [1]}]}',
        b'{"a": {"hash_ids": [1, 2]}, "requests": [{"hash_ids": [1, 2 3]}]}',
        b'{"a": {"hash_ids": [01]}, "requests": [{"hash_ids": [01]}]}',
        b'{"a": {"hash_ids": []}, "requests": [{"hash_ids": [ ]}, {"hash_ids": [,1]}]}',
        b'{"hash_ids": [1], "hash_ids": [2], "requests": [{"hash_ids": [3]}]}',
        b'{"id": 1, "id": 1, "requests": [{"hash_ids": [3]}, {"hash_ids": [3]}]}',
        b'{"requests": [{"in": 1, "in": 1, "hash_ids": [3]}, {"hash_ids": [3]}]}',
        b'{"requests": [{"in": 1, "in": 1, "hash_ids": [3]}, {"hash_ids": [3]}], }',
        b'{"a": "hash_ids", "hash_ids": [1], "requests": [{"hash_ids": [3]}]}',
        b'{"a": "x\\"hash_ids\\": [1]", "requests": [{"hash_ids": [3]}, {"hash_ids": [3]}]}',
        b'{"a": {"hash_ids": [1]}, "requests": [{"hash_ids": [3]5}, {"hash_ids": [3]}]}',
        b'{"a": {"hash_ids": [1]}, "requests": [{"hash_ids": [3].5}, {"hash_ids": 1[3]}]}',
        b'["hash_ids": [1], "hash_ids": [1]]',
        b'[{"hash_ids": [1]}, {"hash_ids": [1]}]',
        b'{"a": "x"hash_ids": [1]", "requests": [{"hash_ids": [3]}]}',
        b'{"a": "\xff", "requests": [{"hash_ids": [3]}, {"hash_ids": [3]}]}',
        b'\xef\xbb\xbf{"requests": [{"hash_ids": [3]}, {"hash_ids": [3]}]}',
        line_of([1], [2]).decode().encode("utf-16"),
        b'{"requests": [{"hash_ids": [9223372036854775807]}, {"hash_ids": [9223372036854775808]}]}',
        b'{"requests": [{"hash_ids": [1' + b"0" * 5000 + b']}, {"hash_ids": [1]}]}',
    ],
)
def test_a_line_made_to_mislead_is_what_the_plain_parser_makes_of_it(line):
    assert outcome(parse_line, line) == outcome(parse_plainly, line)


def test_prompts_that_only_grow_are_views_of_one_array():
    rows = parse_line(line_of([1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3, 45]))["requests"]
    assert [row["hash_ids"].tolist() for row in rows] == [[1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3, 45]]
    assert len({id(row["hash_ids"].base) for row in rows}) == 1


def test_what_two_prompts_begin_with_alike_is_decoded_once(monkeypatch):
    seen: list[bytes] = []
    decode = trace_rows._ids

    def spy(text, may_be_empty=False):
        seen.append(text)
        return decode(text, may_be_empty)

    monkeypatch.setattr(trace_rows, "_ids", spy)
    parse_line(line_of([10, 20, 30], [10, 20, 30, 40], [10, 20, 35]))
    assert [text.strip() for text in seen] == [b"10, 20, 30", b"40", b"35"]
