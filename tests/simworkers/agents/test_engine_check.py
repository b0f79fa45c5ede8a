"""The simulator against torch engines that compute every token of a scaled-down trace."""

import random
from dataclasses import replace

import pytest

from simworkers.agents.params import AgentParams
from simworkers.agents.scene import build_scene
from simworkers.agents.serving import engine_check
from simworkers.agents.serving.cluster import Incident
from simworkers.agents.serving.engine_check import check_against_engine
from simworkers.agents.serving.policies import POLICIES
from simworkers.agents.serving.token_blocks import TokenBlocks
from simworkers.agents.serving.workload import build_workload
from simworkers.agents.traffic.flags import Flags
from simworkers.agents.traffic.generator import GeneratorSpec, generate
from simworkers.agents.traffic.scaling import scale_down
from simworkers.agents.traffic.traces import read_trace
from tests.simworkers.agents import scenes
from tests.simworkers.golden import shared_file

SMALL = GeneratorSpec(num_sessions=6, turns_percent=20, context_scale_percent=1, block_size=8)


def disagreeing(rows):
    return [row for row in rows if not row.agrees]


def cached(rows):
    return sum(row.engine.cached_tokens for row in rows if row.engine is not None)


@pytest.mark.parametrize(("policy", "seed"), [(policy, place % 2) for place, policy in enumerate(POLICIES)])
def test_every_turn_of_agents_and_subagents_goes_the_same_way_on_engines(policy, seed):
    trace = generate(SMALL, seed)
    setup = scenes.setup(policy=policy, replicas=3, kv_blocks=430, sessions_at_once=5, seed=seed)
    rows = check_against_engine(trace, setup)
    assert disagreeing(rows) == []
    assert cached(rows), "no hits"
    assert any(row.turn.kept for row in rows), "no answer fills a block"
    assert len({row.turn.stream for row in rows}) > len(trace.sessions), "no subagents"


@pytest.mark.parametrize("policy", ["round_robin", "sticky", "longest_prefix"])
def test_capacities_of_these_checks_are_so_tight_that_blocks_are_evicted(policy):
    trace, setup = generate(SMALL, 0), scenes.setup(policy=policy, kv_blocks=430, sessions_at_once=5)
    tight, wide = (check_against_engine(trace, replace(setup, kv_blocks=blocks)) for blocks in (430, 2_000))
    assert disagreeing(tight) == disagreeing(wide) == []
    assert cached(tight) < cached(wide)


def agent(draw, ids, prefix, depth):
    """Requests of one agent: answers fill blocks, contexts are cut back, subagents start from any of its blocks."""
    rows, context = [], [*prefix, *(next(ids) for _ in range(40))]
    tokens = len(prefix) * scenes.BLOCK + draw.randint(1, 12)
    for turn in range(draw.randint(1, 6)):
        outputs = draw.randint(1, 14)
        whole = context[: tokens // scenes.BLOCK]
        rows.append(scenes.request(0.0, whole, outputs, tokens % scenes.BLOCK))
        if turn and depth < 2 and draw.random() < 0.3:
            start = context[: draw.choice([len(prefix), len(whole), (tokens + outputs - 1) // scenes.BLOCK])]
            rows += [
                scenes.subagent(0.0, *agent(draw, ids, start, depth + 1), name=f"{depth}.{turn}.{beside}")
                for beside in range(draw.randint(1, 2))
            ]
        tokens += outputs + draw.choice([0, 1, 2, 5, 9])
        if draw.random() < 0.15:
            context = [*prefix, *(next(ids) for _ in range(40))]
            tokens = len(prefix) * scenes.BLOCK + draw.randint(1, 12)
    return rows


def entangled(draw):
    """Sessions that share a beginning, if their ids are global."""
    ids, scope = iter(range(100, 100_000)), draw.choice(["local", "global"])
    prefix = list(range(draw.randint(0, 4)))
    return scenes.trace_of(
        *(
            scenes.session(*agent(draw, ids, prefix, 0), hash_id_scope=scope)
            for _ in range(draw.randint(1, 5))
        )
    )


def incidents(draw):
    at_us = draw.randint(0, 20_000)
    first, second = draw.sample([0, 1], 2)
    back_us = at_us + draw.randint(1, 20_000)
    return (
        Incident(at_us, first, draw.choice(["fail", "drain"])),
        Incident(back_us, first, "return"),
        Incident(back_us + 1, second, "fail"),
        Incident(back_us + 10_000, second, "return"),
    )


@pytest.mark.parametrize("seed", range(40))
def test_entangled_agents_on_replicas_that_die_and_return_go_the_same_way_on_engines(seed):
    draw = random.Random(seed)
    setup = scenes.setup(
        policy=draw.choice(list(POLICIES)),
        replicas=draw.randint(2, 3),
        kv_blocks=draw.randint(14, 50),
        sessions_at_once=draw.randint(1, 6),
        cost=scenes.cost(
            token_budget=draw.choice([7, 32, 512]), pipeline_parallel=draw.choice([1, 2]), collective_us=3
        ),
        incidents=incidents(draw) if draw.random() < 0.5 else (),
        seed=seed,
    )
    assert disagreeing(check_against_engine(entangled(draw), setup)) == []


@pytest.mark.parametrize("policy", ["round_robin", "sticky", "longest_prefix", "sticky_spill"])
def test_recorded_sessions_scaled_down_go_the_same_way_on_engines(policy):
    with shared_file("traces/agent_sessions.jsonl.gz").open("rb") as file:
        trace = read_trace(file)
    trace = scale_down(replace(trace, sessions=trace.sessions[:10]), blocks_to_one=32, block_size=8)
    rows = check_against_engine(trace, scenes.setup(policy=policy, kv_blocks=170, sessions_at_once=6))
    assert disagreeing(rows) == []
    assert sum(row.engine is not None for row in rows) == len(rows) > 200


def test_the_default_scene_of_the_lab_scaled_down_goes_the_same_way_on_engines():
    scene = build_scene(AgentParams(), seed=0)
    small = scale_down(scene.trace, blocks_to_one=32, block_size=8)
    rows = check_against_engine(small, replace(scene.setup, kv_blocks=scene.setup.kv_blocks // 32))
    assert disagreeing(rows) == []
    assert sum(row.engine is not None for row in rows) == len(rows) > 500


def test_what_an_engine_refuses_the_simulator_refuses():
    trace = scenes.trace_of(scenes.growing(8, first=3, step=2, out=6))
    rows = check_against_engine(trace, scenes.setup(kv_blocks=12))
    assert disagreeing(rows) == []
    assert [row.engine is None for row in rows] == [False] * 4 + [True] * 4


def test_a_simulator_that_forgets_answers_is_found_out(monkeypatch):
    trace, setup = scenes.trace_of(scenes.growing(6, out=8)), scenes.setup(replicas=1)
    assert disagreeing(check_against_engine(trace, setup)) == []
    monkeypatch.setattr(engine_check, "HIT_RATE", Flags(cache_outputs=False))
    wrong = disagreeing(check_against_engine(trace, setup))
    assert [row.turn.index for row in wrong] == [1, 2, 3, 4, 5]


def test_a_simulator_that_hits_whole_prompts_is_found_out(monkeypatch):
    row = scenes.session(scenes.request(0, [0, 1], 1), hash_id_scope="global")
    trace, setup = scenes.trace_of(row, row), scenes.setup(replicas=1)
    assert disagreeing(check_against_engine(trace, setup)) == []
    monkeypatch.setattr(engine_check, "HIT_RATE", Flags(full_hit_recompute=False))
    assert len(disagreeing(check_against_engine(trace, setup))) == 1


def test_a_prompt_of_cached_blocks_alone_costs_the_engine_one_block_more():
    """The known difference. The second prompt 0, 1 computes block 1 again; the engine keeps it beside the first one,
    and so pushes out one block of 7, 8, which a cache that knows every block once need not."""
    trace = scenes.trace_of(
        *(
            scenes.session(scenes.request(0, ids, 1), hash_id_scope="global")
            for ids in ([7, 8], [0, 1], [0, 1], [7, 8, 9])
        )
    )
    setup = scenes.setup(replicas=1, kv_blocks=4, sessions_at_once=1)
    last = check_against_engine(trace, setup)[-1]
    assert last.simulated is not None and last.engine is not None
    assert (last.simulated.cached_tokens, last.engine.cached_tokens) == (8, 4)
    wider = check_against_engine(trace, replace(setup, kv_blocks=5))
    assert disagreeing(wider) == []


def test_an_answer_stands_in_the_prompt_that_continues_it():
    trace = scenes.trace_of(scenes.growing(2, first=3, step=3, out=7))
    workload = build_workload(trace)
    texts, (first, second) = TokenBlocks(trace, workload), workload.turns
    prompt, answer = texts.prompt(first), [501, 502, 503, 504, 505, 506, 507]
    texts.answer(first, answer)
    assert texts.prompt(second)[:19] == [*prompt, *answer]
    assert len(texts.prompt(second)) == second.input_tokens


def test_an_id_stands_for_the_same_tokens_in_all_sessions_that_share_it_and_in_no_other():
    rows = [
        scenes.session(scenes.request(0, ids), hash_id_scope=scope)
        for ids, scope in (([5, 6], "global"), ([5, 9], "global"), ([5, 6], "local"))
    ]
    trace = scenes.trace_of(*rows)
    workload = build_workload(trace)
    texts = TokenBlocks(trace, workload)
    one, other, own = (texts.prompt(turn) for turn in workload.turns)
    assert one[:4] == other[:4] and one[4:] != other[4:] and own[:4] != one[:4]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1, 2], [3, 2]], "block 2 stands behind two different blocks"),
        ([[]], "nothing to compute"),
        ([[1, 2, 1]], "block 1 stands behind two different blocks"),
    ],
)
def test_a_trace_that_no_tokens_can_stand_behind_is_refused(rows, message):
    trace = scenes.trace_of(*(scenes.session(scenes.request(0, ids), hash_id_scope="global") for ids in rows))
    with pytest.raises(ValueError, match=message):
        check_against_engine(trace, scenes.setup())


def test_an_answer_that_somebody_sent_before_it_was_given_is_refused():
    knows_it = scenes.session(scenes.request(0, [0, 1, 2]), hash_id_scope="global")
    is_told = scenes.session(
        scenes.request(0, [0], 9), scenes.request(1, [0, 1, 2, 3]), hash_id_scope="global"
    )
    with pytest.raises(ValueError, match="block 1 is an answer, and was sent before it was given"):
        check_against_engine(scenes.trace_of(knows_it, is_told), scenes.setup(sessions_at_once=1))


def test_prompts_that_share_a_beginning_share_it_after_scaling_down():
    trace = scenes.trace_of(
        scenes.session(
            scenes.request(0, list(range(8))), scenes.request(1, [*range(6), 100, 101], out=32, more=3)
        )
    )
    (session,) = scale_down(trace, blocks_to_one=2, block_size=3).sessions
    first, second = session.requests
    assert (first.blocks.tolist(), second.blocks.tolist()) == ([1, 3, 5, 7], [1, 3, 5, 101])
    assert (first.input_tokens, second.input_tokens, second.output_tokens) == (12, 13, 12)


@pytest.mark.parametrize("sizes", [(0, 4), (2, 0)])
def test_a_trace_cannot_be_scaled_down_to_nothing(sizes):
    with pytest.raises(ValueError, match="blocks_to_one"):
        scale_down(scenes.trace_of(scenes.growing(2)), *sizes)
