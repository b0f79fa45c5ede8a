"""A log of requests, replayed block by block, on logs that can be followed by hand."""

from simworkers.agents.tasks.kv_log import BLOCK_TOKENS, replay

COLUMNS = ["sent_s", "done_s", "session", "agent", "turn", "replica", "input_tokens", "output_tokens"]
COLUMNS += ["repeats_tokens"]


def row(sent_s, session, blocks, *, agent=0, turn=1, replica=0, out=1, repeats=0, done_s=None):
    return [
        sent_s,
        sent_s + 1 if done_s is None else done_s,
        session,
        agent,
        turn,
        replica,
        blocks * BLOCK_TOKENS,
        out,
        repeats * BLOCK_TOKENS,
    ]


def found(rows, *, blocks, repeats, kv_blocks=100, session=1, **setting):
    """Blocks of the watched prompt that are found."""
    visible = {
        "policy": "sticky",
        "replicas": 2,
        "host_gb": 0,
        "kv_blocks_of_a_replica": kv_blocks,
        "log": [COLUMNS, *rows],
        "watched": {
            "session": session,
            "agent": 0,
            "turn": 2,
            "input_tokens": blocks * BLOCK_TOKENS + 1,
            "output_tokens": 1,
            "repeats_tokens": repeats * BLOCK_TOKENS,
        },
    } | setting
    return replay(visible).cached_tokens // BLOCK_TOKENS


def test_a_context_that_grows_finds_its_prompt_and_the_full_blocks_of_the_answer():
    first = row(0, 1, 4, out=2 * BLOCK_TOKENS + 5)
    assert found([first], blocks=8, repeats=4) == 6


def test_the_last_token_of_an_answer_fills_no_block():
    first = row(0, 1, 4, out=BLOCK_TOKENS)
    assert found([first], blocks=8, repeats=4) == 4


def test_a_compacted_context_finds_what_it_kept():
    first = row(0, 1, 9, out=BLOCK_TOKENS + 1)
    assert found([first], blocks=6, repeats=2) == 2


def test_others_push_out_the_tail_before_the_head():
    rows = [row(0, 1, 6), row(10, 2, 7)]
    assert found(rows, blocks=8, repeats=6, kv_blocks=10) == 3


def test_what_others_write_on_another_replica_pushes_nothing_out():
    rows = [row(0, 1, 6), row(10, 2, 7, replica=1)]
    assert found(rows, blocks=8, repeats=6, kv_blocks=10) == 6


def test_host_memory_holds_what_was_pushed_out():
    rows = [row(0, 1, 6), row(10, 2, 7)]
    assert found(rows, blocks=8, repeats=6, kv_blocks=10, host_gb=1) == 6


def test_an_answer_that_nobody_goes_on_from_takes_room_all_the_same():
    rows = [row(0, 1, 6), row(10, 2, 4, out=3 * BLOCK_TOKENS)]
    assert found(rows, blocks=8, repeats=6, kv_blocks=10) == 3


def test_round_robin_counts_all_requests_before():
    rows = [row(0, 1, 4), row(10, 2, 3, replica=1)]
    assert found(rows, blocks=8, repeats=4, policy="round_robin") == 4
    assert found([*rows, row(20, 2, 3, turn=2, repeats=3)], blocks=8, repeats=4, policy="round_robin") == 0


def test_the_least_queue_is_the_first_of_those_with_fewest_requests_that_have_not_ended():
    rows = [row(0, 1, 4, replica=1), row(10, 2, 3, done_s=-1)]
    assert found(rows, blocks=8, repeats=4, policy="least_queue") == 4
    rows = [row(0, 1, 4, replica=1), row(10, 2, 3)]
    assert found(rows, blocks=8, repeats=4, policy="least_queue") == 0


def test_a_subagent_begins_like_the_one_before_it():
    rows = [row(0, 1, 4), row(10, 1, 3, agent=1), row(20, 1, 4, agent=2, repeats=2)]
    assert found(rows, blocks=6, repeats=4, kv_blocks=9) == 4
    assert found(rows, blocks=6, repeats=4, kv_blocks=8) == 3
