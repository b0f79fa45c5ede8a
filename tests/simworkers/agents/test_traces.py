"""Traces from outside: what is wrong is named by line and field, and costs nothing but itself."""

import contextlib
import gzip
import io
import json
import tracemalloc

import pytest

from simworkers.agents.traffic import trace_notes, traces
from simworkers.agents.traffic.trace_file import read_lines
from simworkers.agents.traffic.traces import NEITHER, BadTrace, read_trace

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


def doubled(pair, behind=None):
    """A usable line, but for one more pair behind this one, or this one again."""
    return json.dumps(GOOD).encode().replace(pair, pair + b", " + (behind or pair))


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
        ("requests[0].hash_ids", with_request(hash_ids=[1, 2**63])),
        ("requests[0].hash_ids", with_request(hash_ids=[1, True])),
        ("requests[0].hash_ids", with_request(hash_ids="12")),
        ("requests[0].requests", GOOD | {"requests": [{"type": "subagent", "t": 0, "requests": None}]}),
        ("requests[0]" + ".requests[0]" * 8, nested(9)),
        ("id", doubled(b'"id": "good"', b'"id": "other"')),
        ("requests[0].in", doubled(b'"in": 8')),
        ("requests[0].hash_ids", doubled(b'"hash_ids": [1, 2]')),
        ("requests", doubled(b'"block_size": 4', b'"requests": [{"in": 1, "in": 2}]')),
        (r"'\n'", b'{"\\n": 1, "\\u000a": 2}'),
        ("x" * 40 + "…", b'{"%s": 1, "%s": 2}' % (2 * (b"x" * 41,))),
    ],
)
def test_a_malformed_line_is_named_with_its_field_and_loses_nothing_else(field, line):
    trace = read(GOOD, line, GOOD)
    assert [session.id for session in trace.sessions] == ["good", "good"]
    assert [(note.line, note.field, note.is_refused) for note in trace.notes] == [(2, field, True)]


@pytest.mark.parametrize("name", ["t", "in", "out", "hash_ids"])
def test_a_field_that_is_not_there_is_missing(name):
    request = {key: value for key, value in REQUEST.items() if key != name}
    (note,) = read(GOOD, GOOD | {"requests": [request]}).notes
    assert str(note) == f"line 2: requests[0].{name}: is missing"


def test_a_line_that_is_no_json_says_at_which_character_and_names_one_line():
    (note,) = read(GOOD, b'{"id": "x" "y"}').notes
    assert str(note) == "line 2: is not JSON: Expecting ',' delimiter at character 12"


LONG = b"1" + b"0" * 5000


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("requests[0].t", json.dumps(with_request(t=7)).encode().replace(b"7", LONG)),
        ("requests[0].in", json.dumps(with_request(**{"in": 7})).encode().replace(b"7", b"-" + LONG)),
        ("requests[0].hash_ids[1]", json.dumps(GOOD).encode().replace(b"[1, 2]", b"[1, " + LONG + b"]")),
        ("line", LONG),
    ],
)
def test_an_integer_that_is_too_long_to_be_read_costs_its_line_and_is_named_by_its_place(field, line):
    trace = read(GOOD, line, GOOD)
    assert len(trace.sessions) == 2
    assert [(note.line, note.field, note.message) for note in trace.notes] == [
        (2, field, "has 5,001 digits, at most 4,300 are read")
    ]


def test_a_key_that_stands_twice_in_a_row_without_session_costs_that_row():
    row = b'{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1]}'
    trace = read(row, row.replace(b"{", b'{"timestamp": 7, '), row)
    assert len(trace.sessions[0].requests) == 2
    assert [str(note) for note in trace.notes] == ["line 2: timestamp: stands there twice"]


ROW = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [7]}


def test_a_row_whose_unknown_field_is_called_requests_is_a_row():
    trace = read(ROW, ROW | {"requests": 1}, ROW)
    assert (len(trace.sessions[0].requests), trace.notes) == (3, [])


def test_a_session_whose_unknown_field_is_called_timestamp_is_a_session():
    trace = read(GOOD, GOOD | {"timestamp": 1_700_000_000_000, "input_length": None})
    assert (len(trace.sessions), trace.notes) == (2, [])


@pytest.mark.parametrize(
    ("lines", "has_sessions", "strange", "said"),
    [
        ([ROW, GOOD, ROW], False, 2, "requests: make a session, in a file of requests"),
        ([GOOD, GOOD, ROW], True, 3, "requests: must be a list"),
        ([ROW, GOOD, GOOD], True, 1, "requests: must be a list"),
        ([GOOD, ROW], True, 2, "requests: must be a list"),
        ([ROW, GOOD], False, 2, "requests: make a session, in a file of requests"),
        ([ROW, {"id": "x"}], False, 2, NEITHER),
        ([GOOD, {"id": "x"}], True, 2, NEITHER),
        ([GOOD, {"id": "x", "requests": 1}], True, 2, "requests: must be a list"),
        ([{"timestamp": 0}, GOOD], True, 1, "input_length: is missing"),
        ([ROW, {"requests": []}, {"requests": []}], False, 2, "block_size: is missing"),
    ],
)
def test_a_line_of_another_kind_than_most_usable_ones_or_the_first_is_named_and_loses_nothing_else(
    lines, has_sessions, strange, said
):
    trace = read(*lines)
    assert trace.has_sessions == has_sessions
    assert str(trace.notes[0]) == f"line {strange}: {said}"
    assert sum(len(session.requests) for session in trace.sessions) == len(lines) - len(trace.notes)


def test_notes_stand_in_order_of_lines_and_those_beyond_the_first_are_counted(monkeypatch):
    monkeypatch.setattr(trace_notes, "NOTES_KEPT", 3)
    late = GOOD | {"requests": [REQUEST | {"t": 5}, REQUEST]}
    trace = read(GOOD, b"nonsense", late, ROW, late, b"nonsense", GOOD)
    assert [note.line for note in trace.notes] == [2, 3, 4]
    assert (trace.lines_refused, trace.repairs) == (3, 2)


def test_a_file_without_a_usable_line_says_why():
    with pytest.raises(BadTrace, match=r"^line 1: is not JSON"):
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


def test_the_time_of_a_marker_is_missed_only_where_times_count_from_markers():
    timeless = GOOD | {"requests": [{"type": "subagent", "requests": [REQUEST]}]}
    assert len(read(with_subagent(100.0, 101.0), timeless).sessions) == 2
    (note,) = read(with_subagent(100.0, 1.0), timeless).notes
    assert str(note) == "line 2: requests[0].t: is missing"
    with pytest.raises(BadTrace, match=r"^line 1: requests\[0\].t: is missing"):
        read(timeless)


def test_rows_without_sessions_form_one_session():
    row = {"timestamp": 1500, "input_length": 513, "output_length": 3, "hash_ids": [7, 8]}
    (session,) = read(row, row | {"timestamp": 1000}).sessions
    assert session.block_size == 512
    assert [request.at_us for request in session.requests] == [1_000_000, 1_500_000]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (-1, "must be a time from 0 on, not -1"),
        ("now", "must be a time from 0 on, not 'now'"),
        (float("nan"), "must be a time from 0 on, not nan"),
        (
            1_700_000_000,
            "must be at most 316224000, which is ten years from the trace's own zero, not 1700000000",
        ),
        (float("inf"), "must be at most 316224000, which is ten years from the trace's own zero, not inf"),
    ],
)
def test_a_time_that_is_refused_says_which_bound_it_breaks(value, said):
    (note,) = read(GOOD, with_request(t=value)).notes
    assert note.message == said


def test_epoch_milliseconds_are_refused_by_the_bound_that_they_exceed():
    row = {"timestamp": 1000, "input_length": 513, "output_length": 3, "hash_ids": [7, 8]}
    (note,) = read(row, row | {"timestamp": 1_700_000_000_000}).notes
    assert note.message.startswith("must be at most 316224000000, which is ten years")


def test_a_cut_gzip_file_is_refused():
    with pytest.raises(BadTrace, match="gzip"):
        read_trace(io.BytesIO(gzip.compress(json.dumps(GOOD).encode() * 50)[:-20]))


def test_a_gzip_of_several_members_is_read_whole():
    packed = gzip.compress(json.dumps(GOOD).encode() + b"\n")
    assert len(read_trace(io.BytesIO(packed * 3)).sessions) == 3


@pytest.mark.parametrize("count", [1, 512, 2**17])  # 2**17: more than is read at once
def test_zeros_behind_a_member_are_padding(count):
    packed = gzip.compress(json.dumps(GOOD).encode() + b"\n") + bytes(count)
    assert len(read_trace(io.BytesIO(packed)).sessions) == 1
    assert len(read_trace(io.BytesIO(packed * 2)).sessions) == 2


@pytest.mark.parametrize("rest", [b"\0x", b"\0\x1f\x8b"])
def test_what_stands_behind_padding_is_a_member_or_the_file_is_refused(rest):
    with pytest.raises(BadTrace, match="gzip"):
        read_trace(io.BytesIO(gzip.compress(json.dumps(GOOD).encode()) + rest))


def test_a_decompression_bomb_is_refused_before_it_has_swollen(monkeypatch):
    monkeypatch.setattr(traces, "MAX_TEXT_BYTES", 2**20)
    with pytest.raises(BadTrace, match="more than 1 MiB"):
        read_trace(io.BytesIO(gzip.compress(b"\n" * 2**26)))


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(traces, "MAX_LINE_BYTES", 2**20)
    with pytest.raises(BadTrace, match="a line has more than 1 MiB"):
        read_trace(io.BytesIO(b" " * 2**22))


@pytest.mark.parametrize(
    ("limit", "text", "said"),
    [
        ("MAX_LINES", b"\n" * 11, "more than 10 lines"),
        ("MAX_PARTS", b'{"a": {}}\n{"b": [[]]}\n{"c": "d"}\n{}{}', "more than 10 objects, lists and strings"),
        ("MAX_PARTS", b'{"requests": [' + b"{}," * 20, "more than 10 objects, lists and strings"),
        ("MAX_PARTS", b'{"requests": [' + b"{}," * 2000, "more than 10 objects, lists and strings"),
        ("MAX_REQUESTS", json.dumps(GOOD | {"requests": [REQUEST] * 11}).encode(), "more than 10 requests"),
        ("MAX_REQUESTS", (json.dumps(ROW) + "\n").encode() * 11, "more than 10 requests"),
        ("MAX_REFUSED_LINES", b"\nx\n" * 11, "more than 10 lines cannot be used; line 2: is not JSON"),
        (
            "MAX_REFUSED_LINES",
            b"{}\n" * 11,
            "more than 10 lines cannot be used; line 1: is neither a session",
        ),
    ],
)
def test_a_file_above_a_limit_is_refused(monkeypatch, limit, text, said):
    monkeypatch.setattr(traces, limit, 10)
    with pytest.raises(BadTrace, match=said):
        read_trace(io.BytesIO(text))


def peak_bytes(text):
    """Most memory that reading takes, whether or not anything of it can be used."""
    tracemalloc.start()
    try:
        with contextlib.suppress(BadTrace):
            read_trace(io.BytesIO(text))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    [
        b"1\n" * 2**18,
        (b'{"requests": [' + b"{}," * 1000 + b"{}]}\n") * 200,
        json.dumps(GOOD).encode() + b"\n" + (b'{"a": [' + b"{}," * 1000 + b"{}]}\n") * 200,
        b'{"requests": [' + b"{}," * 2**18 + b"{}]}",
        b'{"requests": [' + b'"ab",' * 2**18 + b'""]}',
    ],
    ids=["bad lines", "sessions", "unknown fields", "one session", "one list"],
)
def test_no_bomb_takes_much_more_memory_than_its_text(monkeypatch, text):
    monkeypatch.setattr(traces, "MAX_PARTS", 2**18)
    monkeypatch.setattr(trace_notes, "NOTES_KEPT", 100)
    assert peak_bytes(text) < 5 * len(text) + 2**20


def subagent(*requests, **others):
    return {"type": "subagent", "t": 0.0, "requests": list(requests)} | others


def agents_of(*items):
    (session,) = read(GOOD | {"requests": list(items)}).sessions
    return [(request.place, request.agent, request.parent) for request in session.requests]


def test_requests_keep_their_place_and_who_started_their_agent():
    outer = subagent(REQUEST, subagent(REQUEST, agent_id="b"), REQUEST, agent_id="a")
    assert agents_of(REQUEST, outer, REQUEST) == [
        (0, None, None),
        (1, "a", None),
        (2, "b", "a"),
        (3, "a", None),
        (4, None, None),
    ]


def test_places_count_the_file_not_the_times():
    (session,) = read(GOOD | {"requests": [REQUEST | {"t": 5}, REQUEST | {"t": 2}]}).sessions
    assert [request.place for request in session.requests] == [1, 0]


def test_subagents_without_a_name_or_with_anothers_are_agents_of_their_own():
    marker = subagent(REQUEST)
    names = [name for _, name, _ in agents_of(marker, marker | {"agent_id": "a"}, marker | {"agent_id": "a"})]
    assert len(set(names)) == 3
    assert names[1] == "a"


def test_a_name_that_looks_like_a_made_up_one_stays_one_agents():
    sly = [subagent(REQUEST, agent_id=name) for name in ("a", "a at requests[2]", "a", "requests[4]")]
    assert len({name for _, name, _ in agents_of(*sly, subagent(REQUEST))}) == 5


@pytest.mark.parametrize(
    ("given", "service_us"),
    [
        ({"api_time": 1.5, "ttft": 0.25}, 1_500_000),
        ({"ttft": 0.25}, 250_000),
        ({"api_time": None, "duration": 2, "ttft": 1}, 2_000_000),
        ({}, None),
    ],
)
def test_service_times_are_kept_where_a_row_has_one(given, service_us):
    assert read(with_request(**given)).sessions[0].requests[0].service_us == service_us


def test_a_service_time_that_is_none_is_left_out_and_it_is_said():
    trace = read(with_request(api_time="long"))
    assert trace.sessions[0].requests[0].service_us is None
    assert [(note.field, note.is_refused) for note in trace.notes] == [("requests[0].api_time", False)]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("length", [1, 2**18 - 1, 2**18, 2**18 + 1, 2**19])
def test_lines_are_whole_wherever_a_file_is_read_in_pieces(length, compress):
    lines = [b"a" * length, b"", b"b" * (3 * length), b"c"]
    for ending in (b"", b"\n"):
        file = io.BytesIO(compress(b"\n".join(lines) + ending))
        assert list(read_lines(file, 2**29, 2**26)) == lines
