"""The fast replay against recorded results, and against a cache that is walked block by block."""

import gzip
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.agents.traffic.flags import HIT_RATE, RECORDED, Flags
from simworkers.agents.traffic.generator import GeneratorSpec, generate
from simworkers.agents.traffic.replay import prepare, replay, replay_blocks, replay_trace
from simworkers.agents.traffic.traces import Session, Trace, TraceRequest, read_trace
from tests.simworkers.golden import load_golden, shared_file
from tests.simworkers.shells import ROOT

NAMES = ("hit_blocks", "hit_tokens", "input_tokens")


def trace_of(*sessions: dict[str, Any]) -> Trace:
    return read_trace(io.BytesIO("\n".join(map(json.dumps, sessions)).encode()))


def session(*prompts: tuple[float, list[int]], block_size: int = 4, **others: Any) -> dict[str, Any]:
    requests = [{"t": t, "in": len(ids) * block_size, "out": 1, "hash_ids": ids} for t, ids in prompts]
    return {"id": "s", "block_size": block_size, "requests": requests} | others


def naive_hits(trace: Trace, capacity: int | None, flags: Flags = RECORDED) -> list[int | None]:
    """Written from the definition: one list, the most recent block first. None: refused."""
    recent: list[tuple[int, int]] = []
    hits: list[int | None] = []
    for one, request in trace.in_order():
        size, ids = one.block_size, request.blocks.tolist()
        if len(ids) * size > request.input_tokens and not flags.partial_blocks:
            ids.pop()
        if capacity is not None and not flags.clip_oversize and len(set(ids)) > capacity:
            hits.append(None)
            continue
        hit = 0
        while hit < len(ids) and (one.space, ids[hit]) in recent:
            hit += 1
        if flags.full_hit_recompute:
            while hit and hit * size >= request.input_tokens:
                hit -= 1
        hits.append(hit)
        if flags.cache_outputs:
            ids += filled_by_the_answer(one, request)
        distinct = list(dict.fromkeys((one.space, block) for block in ids))
        recent = distinct + [key for key in recent if key not in distinct]
        del recent[len(recent) if capacity is None else capacity :]
    return hits


def filled_by_the_answer(session: Session, request: TraceRequest) -> list[int]:
    """Token by token: blocks that the answer completes, as the agent's next prompt names them."""

    def by_time(one: TraceRequest) -> tuple[int, int]:
        return one.at_us, one.place

    later = [
        one for one in session.requests if one.agent == request.agent and by_time(one) > by_time(request)
    ]
    following = min(later, key=by_time, default=None)
    size = session.block_size
    whole = [
        block for n, block in enumerate(request.blocks.tolist()) if (n + 1) * size <= request.input_tokens
    ]
    if following is None or following.blocks.tolist()[: len(whole)] != whole:
        return []
    with_kv = request.input_tokens + max(request.output_tokens - 1, 0)  # never the last output
    stops = [(n + 1) * size for n in range(len(following.blocks))]
    return [
        block
        for stop, block in zip(stops, following.blocks.tolist(), strict=True)
        if len(whole) * size < stop <= min(with_kv, following.input_tokens)
    ]


prompts = st.lists(
    st.one_of(
        st.integers(0, 14).map(lambda length: list(range(length))),  # one growing context
        st.tuples(st.integers(0, 8), st.integers(0, 8)).map(
            lambda cut: [*range(cut[0]), *range(20, 20 + cut[1])]
        ),
        st.tuples(st.integers(0, 9), st.integers(0, 9)).map(
            lambda cut: [*range(cut[0]), *range(5, 5 + cut[1])]
        ),
        st.lists(st.integers(0, 6), max_size=8),  # repeats and shuffles
    ),
    min_size=1,
    max_size=8,
)
rows = st.tuples(
    prompts.map(lambda lists: lists[0]),
    st.integers(0, 5),  # s
    st.integers(0, 3),  # tokens that the last block lacks
    st.integers(0, 40),  # outputs
    st.sampled_from([None, None, "a", "b"]),
)


def row(ids: list[int], t: int, lacking: int, out: int, agent: str | None) -> dict[str, Any]:
    request = {"t": t, "in": max(len(ids) * 4 - lacking, 0), "out": out, "hash_ids": ids}
    return (
        request
        if agent is None
        else {"type": "subagent", "t": 0, "agent_id": agent, "requests": [request, request]}
    )


traces = st.lists(
    st.tuples(st.lists(rows, min_size=1, max_size=8), st.sampled_from(["local", "global"])),
    min_size=1,
    max_size=3,
).map(
    lambda sessions: trace_of(
        *(
            session(hash_id_scope=scope) | {"requests": [row(*one) for one in found]}
            for found, scope in sessions
        )
    )
)
capacities = st.one_of(st.none(), st.integers(1, 30))
flag_sets = st.builds(Flags, st.booleans(), st.booleans(), st.booleans(), st.booleans())


@settings(max_examples=400, deadline=None)
@given(traces, capacities)
def test_every_request_hits_what_it_hits_block_by_block(trace, capacity):
    expected = naive_hits(trace, capacity)
    assert list(replay(prepare(trace), capacity).per_request) == expected
    assert list(replay_blocks(trace, capacity).per_request) == expected


@settings(max_examples=600, deadline=None)
@given(traces, capacities, flag_sets)
def test_every_flag_counts_what_it_says_block_by_block(trace, capacity, flags):
    expected = naive_hits(trace, capacity, flags)
    for hits in (replay(prepare(trace, flags, capacity), capacity), replay_blocks(trace, capacity, flags)):
        assert list(hits.per_request) == [hit or 0 for hit in expected]
        assert list(hits.refused) == [number for number, hit in enumerate(expected) if hit is None]


def one_growing_context() -> Trace:
    """Prompts of 8, 14 and 22 tokens in blocks of 4; the first answers are 3 and 6 tokens long."""
    lists = [(8, 3, [1, 2]), (14, 6, [1, 2, 3, 4]), (22, 1, [1, 2, 3, 5, 6, 7])]
    requests = [{"t": t, "in": i, "out": out, "hash_ids": ids} for t, (i, out, ids) in enumerate(lists)]
    return trace_of(session() | {"requests": requests})


@pytest.mark.parametrize(
    ("flags", "per_request"),
    [
        (RECORDED, (0, 2, 3)),
        (replace(RECORDED, cache_outputs=True), (0, 2, 4)),  # 14 + 6 − 1 tokens with KV: one block more
        (HIT_RATE, (0, 2, 4)),
    ],
)
def test_an_answer_leaves_its_whole_blocks_to_the_prompt_that_continues_it(flags, per_request):
    assert replay_trace(one_growing_context(), None, flags).per_request == per_request


@pytest.mark.parametrize(
    ("flags", "second"), [(RECORDED, 2), (replace(RECORDED, full_hit_recompute=True), 1)]
)
def test_of_a_prompt_that_hits_whole_the_last_token_may_be_computed_again(flags, second):
    assert replay_trace(trace_of(session((0.0, [1, 2]), (1.0, [1, 2]))), None, flags).per_request == (
        0,
        second,
    )


@pytest.mark.parametrize(
    ("flags", "second"),
    [
        (RECORDED, 2),
        (replace(RECORDED, partial_blocks=False), 1),
        (replace(RECORDED, full_hit_recompute=True), 1),
    ],
)
def test_a_partly_filled_block_may_hit(flags, second):
    partly = {"t": 0, "in": 6, "out": 1, "hash_ids": [1, 2]}
    trace = trace_of(session() | {"requests": [partly, partly]})
    assert replay_trace(trace, None, flags).per_request == (0, second)


def test_a_prompt_above_the_capacity_keeps_its_head():
    trace = trace_of(session((0.0, [1, 2, 3]), (1.0, [1, 2, 3])))
    assert replay_trace(trace, 2, RECORDED).per_request == (0, 2)


def test_a_prompt_above_the_capacity_may_be_refused_and_then_touches_nothing():
    trace = trace_of(session((0.0, [8]), (1.0, [1, 2, 3]), (2.0, [8])))
    hits = replay_trace(trace, 2, replace(RECORDED, clip_oversize=False))
    assert (hits.per_request, hits.refused, hits.refused_tokens) == ((0, 0, 1), (1,), 12)
    assert (hits.hit_tokens, hits.input_tokens) == (4, 8)


def test_stretches_that_left_out_other_requests_are_not_replayed():
    flags = replace(RECORDED, clip_oversize=False)
    trace = trace_of(session((0.0, [1, 2, 3])))
    assert replay(prepare(trace, flags), 3).refused == ()
    with pytest.raises(ValueError, match=r"^capacity_blocks: prepared for None, not 2"):
        replay(prepare(trace, flags), 2)
    with pytest.raises(ValueError, match=r"^capacity_blocks: prepared for 2, not 3"):
        replay(prepare(trace, flags, 2), 3)


def recorded_trace(name: str) -> Trace:
    with shared_file(f"traces/{name}").open("rb") as file:
        return read_trace(file)


def test_the_recorded_sessions_give_the_recorded_hits_at_every_capacity():
    prepared = prepare(recorded_trace("agent_sessions.jsonl.gz"))
    for result in load_golden("lru_replay.json")["results"]:
        hits = replay(prepared, result["capacity_blocks"])
        assert {name: getattr(hits, name) for name in NAMES} == {name: result[name] for name in NAMES}


@pytest.mark.parametrize(
    ("flags", "capacity", "percent", "refused"),
    [
        (RECORDED, None, 94.07, 0),
        (HIT_RATE, None, 94.49, 0),
        (RECORDED, 4096, 36.66, 0),
        (HIT_RATE, 4096, 37.34, 36),
    ],
)
def test_the_recorded_sessions_have_the_hit_rates_that_the_documentation_tells(
    flags, capacity, percent, refused
):
    hits = replay_trace(recorded_trace("agent_sessions.jsonl.gz"), capacity, flags)
    assert round(100 * hits.hit_tokens / (hits.input_tokens + hits.refused_tokens), 2) == percent
    assert len(hits.refused) == refused
    told = (ROOT / "docs/labs/agent-traces.md").read_text()
    assert f"{percent}%" in told[told.index("## Exact replay") :]


def test_made_up_cases_with_gaps_repeats_and_branches_give_the_recorded_hits():
    for case in load_golden("lru_cases.json")["cases"]:
        trace = trace_of(*case["sessions"])
        for result in case["results"]:
            hits = replay(prepare(trace), result["capacity_blocks"])
            assert {name: getattr(hits, name) for name in NAMES} == {name: result[name] for name in NAMES}


@pytest.mark.parametrize("flags", [RECORDED, HIT_RATE])
@pytest.mark.parametrize("shared_prefix_tokens", [0, 12_000])
def test_generated_sessions_hit_by_stretches_what_they_hit_block_by_block(flags, shared_prefix_tokens):
    spec = GeneratorSpec(context_scale_percent=5, shared_prefix_tokens=shared_prefix_tokens)
    trace = generate(spec, 0)
    prepared = prepare(trace, flags)
    assert prepared.num_stretches < 0.05 * prepared.block_references
    for capacity in (None, 4000, 1000, prepared.largest):
        assert replay(prepared, capacity) == replay_blocks(trace, capacity, flags)


def test_copies_of_ids_hit_what_views_of_one_array_hit():
    trace = generate(GeneratorSpec(num_sessions=5, context_scale_percent=5), 0)
    copies = [
        replace(
            one, requests=tuple(replace(request, blocks=request.blocks.copy()) for request in one.requests)
        )
        for one in trace.sessions
    ]
    assert prepare(Trace(copies)) == prepare(trace)


def test_requests_without_sessions_are_replayed_as_one():
    trace = recorded_trace("requests_512.jsonl.gz")
    assert len(trace.sessions) == 1
    assert len(trace.sessions[0].requests) == 2000
    for capacity in (None, 5_000):
        assert replay_trace(trace, capacity) == replay_blocks(trace, capacity)


def test_hit_tokens_never_exceed_the_prompt():
    partly = {"t": 1.0, "in": 6, "out": 1, "hash_ids": [0, 1]}
    trace = trace_of(session((0.0, [0, 1])) | {"requests": [*session((0.0, [0, 1]))["requests"], partly]})
    assert (replay_trace(trace, None).hit_blocks, replay_trace(trace, None).hit_tokens) == (2, 6)


def test_sessions_with_ids_of_their_own_share_nothing():
    one = session((0.0, [1, 2]))
    assert replay_trace(trace_of(one, one), None).hit_blocks == 0


def test_sessions_with_ids_of_the_whole_file_share_blocks():
    one = session((0.0, [1, 2]), hash_id_scope="global")
    assert replay_trace(trace_of(one, one), None).hit_blocks == 2


def test_a_capacity_below_one_is_refused():
    with pytest.raises(ValueError, match=r"^capacity_blocks: "):
        replay(prepare(trace_of(session((0.0, [1])))), 0)


def test_a_gzip_file_gives_what_the_plain_one_gives():
    text = json.dumps(session((0.0, [1, 2]), (1.0, [1, 2, 3]))).encode()
    packed = read_trace(io.BytesIO(gzip.compress(text)))
    assert replay_trace(packed, None) == replay_trace(read_trace(io.BytesIO(text)), None)
