"""One replica: what its steps take in, who gets room, who has to go."""

import pytest

from simworkers.agents.serving.cost import Batch, StepCost
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.serving.replica import Schedule
from simworkers.agents.serving.run_cache import RunCache
from simworkers.agents.serving.workload import build_workload
from simworkers.agents.traffic.flags import Flags
from simworkers.hardware import GPUS
from tests.simworkers.agents import scenes
from tests.simworkers.agents.naive_cache import NaiveCache
from tests.simworkers.agents.scenes import BLOCK, request, session, trace_of

BUDGET = 32


def prompt(blocks, out=1, more=0, first=0, t=0.0):
    """A session of one request, whose ids nobody else has."""
    return session(request(t, list(range(first, first + blocks)), out, more))


def play(*rows, flags=None, **changes):
    """On one replica; all sessions come at once, unless told otherwise."""
    values = {
        "replicas": 1,
        "kv_blocks": 200,
        "sessions_at_once": 50,
        "cost": scenes.cost(token_budget=BUDGET),
    }
    return scenes.play(build_workload(trace_of(*rows), flags or Flags()), scenes.setup(**(values | changes)))


def steps_fs(*batches, **changes):
    priced = scenes.cost(**({"token_budget": BUDGET} | changes))
    return sum(priced.step(batch).first for batch in batches)


def chunk(count, before=0, decodes=0, context=0):
    return Batch(decodes, context, count, count * before + count * (count + 1) // 2)


def test_a_prompt_is_read_in_chunks_of_the_budget():
    (one,) = play(prompt(18)).requests  # 72 tokens
    assert one.first_token_at == steps_fs(chunk(32), chunk(32, 32), chunk(8, 64))


def test_an_answer_takes_a_step_a_token_over_a_growing_context():
    (one,) = play(prompt(2, out=4)).requests
    assert one.finished_at - one.first_token_at == steps_fs(*(Batch(1, tokens, 0) for tokens in (9, 10, 11)))


def test_a_recorded_request_without_an_answer_ends_with_its_prompt():
    (one,) = play(prompt(2, out=0)).requests
    assert one.finished_at == one.first_token_at == steps_fs(chunk(8))


def test_prompts_that_come_while_a_step_runs_share_the_next_in_order_of_admission():
    opener, first, second = play(prompt(1, first=900), prompt(5), prompt(5, first=50)).requests
    both = Batch(0, 0, 32, 20 * 21 // 2 + 12 * 13 // 2)  # 20 tokens each, 32 a step
    assert first.first_token_at - opener.finished_at == steps_fs(both)
    assert second.first_token_at - opener.finished_at == steps_fs(both, chunk(8, 12))


def test_decoding_requests_take_their_tokens_of_a_step_before_prompts_do():
    early, late = play(prompt(1, out=20), prompt(16, out=1, first=50)).requests
    steps = chunk(31, 0, 1, 5), chunk(31, 31, 1, 6), chunk(2, 62, 1, 7)
    assert late.first_token_at - early.first_token_at == steps_fs(*steps)


def test_a_cap_shortens_chunks_only_while_others_decode():
    rows = prompt(1, out=30), prompt(20)
    open_, capped = play(*rows), play(*rows, schedule=Schedule(prefill_cap_tokens=8))
    assert capped.requests[1].first_token_at > open_.requests[1].first_token_at
    assert play(prompt(20), schedule=Schedule(prefill_cap_tokens=8)).end_us == play(prompt(20)).end_us


def test_a_cap_protects_answers_from_a_long_prompt():
    """Of a dense model, whose weights a step reads anyway; with few experts hit, more steps can cost more."""
    dense = StepCost(MODELS["qwen3-32b"], GPUS["h200"], token_budget=8192)
    rows = prompt(1, out=10), prompt(2000, first=100)

    def answered_fs(cap):
        schedule = Schedule(prefill_cap_tokens=cap)
        one = play(*rows, cost=dense, kv_blocks=3000, schedule=schedule).requests[0]
        return one.finished_at - one.first_token_at

    assert answered_fs(cap=512) < answered_fs(cap=0)


def test_an_answer_takes_room_as_it_grows_and_the_last_token_none():
    outcome = play(prompt(2, out=9))  # 8 + 8 positions
    assert outcome.replicas[0].peak_held_blocks == 4
    assert play(prompt(2, out=10)).replicas[0].peak_held_blocks == 5


def test_answers_take_no_room_where_a_replay_is_asked_for():
    outcome = play(prompt(2, out=50), schedule=Schedule(decode_takes_room=False))
    assert outcome.replicas[0].peak_held_blocks == 2


def test_answers_that_outgrow_the_room_push_out_the_youngest_who_comes_back_and_ends():
    old, young = play(prompt(4, out=40), prompt(4, out=40, first=50), kv_blocks=16).requests
    assert (old.preemptions, young.preemptions > 0) == (0, True)
    assert old.finished_at < young.finished_at
    assert young.outputs == 40


def test_a_preempted_request_keeps_its_first_token_and_counts_its_hits_once():
    outcome = play(prompt(4, out=40), prompt(4, out=40, first=50), kv_blocks=16)
    young = outcome.requests[1]
    assert young.found.blocks == 0, "it has found its own blocks when it came back"
    assert young.first_token_at < outcome.requests[0].finished_at


def test_a_prompt_without_room_waits_and_nobody_overtakes_it():
    first, large, small = play(
        prompt(10, out=30), prompt(15, first=50), prompt(1, first=90), kv_blocks=20
    ).requests
    assert large.admitted_at == first.finished_at
    assert large.blocked_fs > 0
    assert small.admitted_at >= large.admitted_at


def test_no_more_requests_hold_kv_than_are_let_in():
    outcome = play(*(prompt(1, out=20, first=10 * n) for n in range(5)), schedule=Schedule(max_requests=2))
    spans = [(one.admitted_at, one.finished_at) for one in outcome.requests]
    assert max(sum(start <= at < end for start, end in spans) for at, _ in spans) == 2


def test_a_request_larger_than_the_cache_is_refused_and_touches_nothing():
    row = session(request(0, [0, 1], 1), request(1, list(range(60, 80)), 1), request(2, [0, 1, 2], 1))
    outcome = play(row, kv_blocks=10)
    assert outcome.refused == [1]
    assert [one.turn.number for one in outcome.requests] == [0, 2]
    assert outcome.requests[1].found.hbm == 2


def test_a_request_whose_answer_would_outgrow_the_cache_is_refused_as_well():
    assert play(prompt(5, out=21), kv_blocks=10).refused == []
    assert play(prompt(5, out=22), kv_blocks=10).refused == [0]


def test_a_clipped_request_is_served_and_leaves_its_head():
    row = session(request(0, list(range(20)), 1), request(1, list(range(20)), 1))
    outcome = play(row, flags=Flags(clip_oversize=True), kv_blocks=10)
    assert outcome.refused == []
    assert [one.found.hbm for one in outcome.requests] == [0, 10]


def test_nobody_hits_a_prompt_that_is_still_being_read():
    rows = [session(request(0, list(range(20)), 1, more=1), hash_id_scope="global") for _ in range(2)]
    side_by_side = play(prompt(1, first=900), *rows, cost=scenes.cost(token_budget=1000))
    assert [one.found.hbm for one in side_by_side.requests] == [0, 0, 0]
    assert side_by_side.replicas[0].peak_held_blocks == 22, "they share the room of their 20 blocks"
    assert [one.found.hbm for one in play(*rows, sessions_at_once=1).requests] == [0, 20]


@pytest.mark.parametrize("cache_type", [RunCache, NaiveCache])
def test_what_was_cached_of_a_run_is_hit_while_the_rest_of_it_is_computed(cache_type):
    cache = cache_type(12, [10, 6])
    for run in (0, 1):
        cache.hold((run,), 0, 0)
        cache.computed((run,))
        cache.release((run,), cache.run_lengths[run], 0)
    assert cache.find((0,)) == 6
    cache.hold((0,), 6, 0)
    assert cache.find((0,)) == 6
    cache.computed((0,))
    assert cache.find((0,)) == 10


def test_a_prompt_is_hit_up_to_its_last_token():
    row = session(request(0, [0, 1, 2], 1), request(1, [0, 1, 2], 1))
    assert [one.found.hbm for one in play(row).requests] == [0, 2]
    row["requests"][1] |= {"in": 3 * BLOCK + 1}
    assert [one.found.hbm for one in play(row).requests] == [0, 3]


def test_an_answer_is_found_by_the_prompt_that_goes_on_with_it():
    row = session(request(0, [0, 1], 9), request(1, [0, 1, 2, 3, 4], 1))
    assert [one.found.hbm for one in play(row).requests] == [0, 4]
    assert [one.found.hbm for one in play(row, flags=Flags(cache_outputs=False)).requests] == [0, 2]


def test_busy_time_is_that_of_all_steps():
    outcome = play(prompt(18, out=4))
    (one,) = outcome.requests
    assert outcome.replicas[0].busy.total == one.finished_at


@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_takes_a_chunk_for_each_stage_a_round(stages):
    (one,) = play(prompt(16), cost=scenes.cost(token_budget=8, pipeline_parallel=stages)).requests
    rounds = [chunk(8 * stages, before) for before in range(0, 64, 8 * stages)]
    assert one.first_token_at == steps_fs(*rounds, token_budget=8, pipeline_parallel=stages)
