"""Traces from outside: what is wrong is named by line and field, and costs nothing but itself."""

import gzip
import io
import json

import pytest

from simworkers.agents import traces
from simworkers.agents.traces import BadTrace, read_trace

REQUEST = {"t": 0.0, "in": 8, "out": 1, "hash_ids": [1, 2]}
GOOD = {"id": "good", "block_size": 4, "requests": [REQUEST]}


def read(*lines):
    texts = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    return read_trace(io.BytesIO(b"\n".join(texts)))


def with_request(**changes):
    return GOOD | {"requests": [REQUEST | changes]}


def nested(depth):
    request = REQUEST
    for _ in range(depth):
        request = {"type": "subagent", "t": 0.0, "requests": [request]}
    return GOOD | {"requests": [request]}


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("line", b"{not json"),
        ("line", b"[1, 2]"),
        ("line", b"\xff\xfe"),
        ("line", b"[" * 100_000),
        ("requests", {"id": "x", "block_size": 4, "requests": {}}),
        ("requests", {"id": "x", "block_size": 4, "requests": []}),
        ("requests[0]", {"id": "x", "block_size": 4, "requests": [3]}),
        ("block_size", GOOD | {"block_size": 0}),
        ("block_size", GOOD | {"block_size": True}),
        ("hash_id_scope", GOOD | {"hash_id_scope": "mine"}),
        ("requests[0].t", with_request(t=-1)),
        ("requests[0].t", with_request(t=float("nan"))),
        ("requests[0].t", with_request(t="now")),
        ("requests[0].in", with_request(**{"in": 2**70})),
        ("requests[0].in", with_request(**{"in": 8.0})),
        ("requests[0].out", with_request(out=-1)),
        ("requests[0].hash_ids", with_request(hash_ids=[1])),
        ("requests[0].hash_ids", with_request(hash_ids=[1, 2, 3])),
        ("requests[0].hash_ids", with_request(hash_ids=[1, "2"])),
        ("requests[0].hash_ids", with_request(hash_ids=[1, 2**80])),
        ("requests[0].hash_ids", with_request(hash_ids=[1, True])),
        ("requests[0].hash_ids", with_request(hash_ids="12")),
        ("requests[0].requests", GOOD | {"requests": [{"type": "subagent", "t": 0, "requests": None}]}),
        ("requests[0]" + ".requests[0]" * 8, nested(9)),
    ],
)
def test_a_malformed_line_is_named_with_its_field_and_loses_nothing_else(field, line):
    trace = read(GOOD, line, GOOD)
    assert [session.id for session in trace.sessions] == ["good", "good"]
    assert [(note.line, note.field, note.is_refused) for note in trace.notes] == [(2, field, True)]


def test_a_file_without_a_usable_line_says_why():
    with pytest.raises(BadTrace, match=r"^line 1: line: is not JSON"):
        read(b"nonsense")


def test_an_empty_file_says_so():
    with pytest.raises(BadTrace, match="no line"):
        read(b"\n\n")


def test_the_last_block_may_be_partly_filled_or_left_out():
    whole, left_out = with_request(**{"in": 7}), with_request(**{"in": 9})
    assert [len(session.requests[0].blocks) for session in read(whole, left_out).sessions] == [2, 2]


def test_times_out_of_order_are_sorted_and_it_is_said():
    trace = read(GOOD | {"requests": [REQUEST | {"t": 5}, REQUEST | {"t": 2}]})
    assert [request.at_us for request in trace.sessions[0].requests] == [2_000_000, 5_000_000]
    assert [(note.field, note.is_refused) for note in trace.notes] == [("requests", False)]


def test_an_empty_subagent_is_left_out_and_it_is_said():
    trace = read(GOOD | {"requests": [REQUEST, {"type": "subagent", "t": 1, "requests": []}]})
    assert len(trace.sessions[0].requests) == 1
    assert not trace.notes[0].is_refused


def with_subagent(marker_s, first_s):
    inner = {"type": "subagent", "t": marker_s, "agent_id": "a", "requests": [REQUEST | {"t": first_s}]}
    return GOOD | {"requests": [REQUEST, inner]}


def test_a_subagents_times_count_from_its_marker():
    requests = read(with_subagent(100.0, 1.0)).sessions[0].requests
    assert [(request.at_us, request.agent) for request in requests] == [(0, None), (101_000_000, "a")]


def test_where_a_corpus_counts_them_from_the_session_that_is_seen_and_said():
    trace = read(with_subagent(100.0, 101.0))
    assert trace.subagent_times == "session"
    assert trace.sessions[0].requests[1].at_us == 101_000_000


def test_rows_without_sessions_form_one_session():
    row = {"timestamp": 1500, "input_length": 513, "output_length": 3, "hash_ids": [7, 8]}
    (session,) = read(row, row | {"timestamp": 1000}).sessions
    assert session.block_size == 512
    assert [request.at_us for request in session.requests] == [1_000_000, 1_500_000]


def test_a_cut_gzip_file_is_refused():
    with pytest.raises(BadTrace, match="gzip"):
        read_trace(io.BytesIO(gzip.compress(json.dumps(GOOD).encode() * 50)[:-20]))


def test_a_gzip_of_several_members_is_read_whole():
    packed = gzip.compress(json.dumps(GOOD).encode() + b"\n")
    assert len(read_trace(io.BytesIO(packed * 3)).sessions) == 3


def test_a_decompression_bomb_is_refused_before_it_has_swollen(monkeypatch):
    monkeypatch.setattr(traces, "MAX_TEXT_BYTES", 2**20)
    with pytest.raises(BadTrace, match="more than 1 MiB"):
        read_trace(io.BytesIO(gzip.compress(b"\n" * 2**26)))


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(traces, "MAX_LINE_BYTES", 2**20)
    with pytest.raises(BadTrace, match="a line has more than 1 MiB"):
        read_trace(io.BytesIO(b" " * 2**22))
