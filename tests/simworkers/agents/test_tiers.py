"""KV below HBM: what is written back, what is loaded again, and how long the link takes."""

from dataclasses import replace

import pytest

from simworkers.agents.serving.cluster import Tiers
from simworkers.agents.serving.cost import FS_PER_S
from simworkers.agents.serving.kv_memory import KvMemory
from simworkers.agents.serving.replica import Replica
from simworkers.agents.serving.run_cache import Found, RunCache
from simworkers.agents.serving.tiers import HostTier, Link, Pool
from simworkers.agents.serving.workload import build_workload
from simworkers.agents.traffic.runs import Chain
from tests.simworkers.agents import scenes
from tests.simworkers.agents.naive_cache import NaiveCache
from tests.simworkers.agents.scenes import growing, request, session, trace_of

LENGTHS = [4, 3, 5, 2]  # blocks of runs 0 … 3
BYTES = 1000  # of a block


def memory(hbm=8, host=0, pool=0, cache_type=RunCache):
    host_tier = HostTier(host, BYTES, Link(1e6)) if host else None
    cache = cache_type(hbm, LENGTHS, host_tier.write_back if host_tier else None)
    shared = Pool(pool, BYTES, LENGTHS) if pool else None
    return KvMemory(cache, 4, host_tier, shared, Link(1e6) if shared else None)


def turn_of(*runs, more=1):
    """A turn whose prompt is these runs and so many tokens behind them."""
    blocks = sum(LENGTHS[run] for run in runs)
    turn = build_workload(trace_of(session(request(0, list(range(blocks)), 1, more)))).turns[0]
    return replace(turn, chain=Chain(runs))


def serve(memory, *runs):
    """One request after another, each over before the next comes."""
    turn = turn_of(*runs)
    found = memory.find(turn)
    ready_at = memory.load(found, runs, 0)
    memory.hold(runs, 0)
    memory.cache.computed(runs)
    memory.keep(turn, turn.blocks, 0)
    return found, ready_at


def test_what_hbm_pushes_out_lies_on_the_host_and_never_in_both():
    kv = memory(hbm=8, host=20)
    serve(kv, 0, 1)
    serve(kv, 2)
    assert [kv.cache.find((run,)) for run in (0, 1, 2)] == [3, 0, 5]  # the tail went first
    assert [kv.host.find(run) for run in (0, 1, 2)] == [1, 3, 0]


def test_a_load_from_the_host_takes_blocks_out_of_it():
    kv = memory(hbm=8, host=20)
    serve(kv, 0, 1)
    serve(kv, 2)
    found, _ = serve(kv, 0, 1)
    assert found == Found(hbm=3, host=4)
    assert kv.host.find(0) == kv.host.find(1) == 0
    assert kv.cache.find((0, 1)) == 7


def test_an_answer_that_is_left_again_lies_in_hbm_and_no_longer_on_the_host():
    tiers, turn = memory(hbm=8, host=20), replace(turn_of(0), kept=(3,))

    def leave():
        tiers.hold(turn.chain.runs, LENGTHS[3])
        tiers.keep(turn, LENGTHS[0] + LENGTHS[3], LENGTHS[3])

    leave()
    serve(tiers, 1, 2)  # pushes all of it out
    assert tiers.host.find(3) == LENGTHS[3]
    leave()
    assert (tiers.cache.find((3,)), tiers.host.find(3)) == (LENGTHS[3], 0)
    tiers.check_integrity()


def test_a_lookup_stops_at_the_first_block_that_no_tier_has():
    kv = memory(hbm=8, host=20)
    kv.host.write_back(1, 3)
    assert kv.find(turn_of(0, 1)) == Found(0)


def test_a_full_host_loses_its_oldest_blocks():
    kv = memory(hbm=8, host=3)
    serve(kv, 0, 1)
    serve(kv, 2, 3)
    assert kv.host.lru.total_blocks == 3
    assert kv.find(turn_of(0, 1)).blocks <= 4


def test_writing_back_counts_bytes_and_delays_nobody():
    kv = memory(hbm=8, host=20)
    serve(kv, 0, 1)
    _, ready_at = serve(kv, 2)
    assert kv.host.link.written_bytes == 4 * BYTES
    assert kv.host.link.write_fs == 4 * FS_PER_S // 1000
    assert ready_at == 0 == kv.host.link.loaded_bytes


def test_loads_stand_in_line_at_a_link():
    link = Link(1e6)
    ends = [link.load(2000, at) for at in (0, FS_PER_S // 1000, 10 * FS_PER_S // 1000)]
    assert ends == [2 * FS_PER_S // 1000, 4 * FS_PER_S // 1000, 12 * FS_PER_S // 1000]
    assert link.loaded_bytes == 6000


def test_a_pool_keeps_what_a_finished_request_leaves_and_sends_it_once():
    kv = memory(hbm=20, pool=20)
    serve(kv, 0, 1)
    serve(kv, 0, 1)
    assert [kv.pool.find(run) for run in (0, 1)] == [4, 3]
    assert kv.pool_link.written_bytes == 7 * BYTES


def test_a_pool_is_read_by_a_replica_that_never_computed_it():
    one, other = memory(hbm=20, pool=20), memory(hbm=20)
    serve(one, 0, 1)
    other.pool, other.pool_link = one.pool, Link(1e6)
    found, ready_at = serve(other, 0, 1)
    assert found == Found(hbm=0, pool=7)
    assert ready_at == 7 * FS_PER_S // 1000
    assert other.cache.find((0, 1)) == 7


def test_a_full_pool_forgets_what_was_read_longest_ago_tail_first():
    kv = memory(hbm=50, pool=9)
    serve(kv, 0)
    serve(kv, 2)
    kv.pool.touch((0,))
    kv.pool.store((1,), kv.pool_link)
    assert [kv.pool.find(run) for run in (0, 1, 2)] == [4, 3, 2]


def test_hits_are_cut_at_the_cap_from_the_lowest_tier_up():
    kv = memory(hbm=20, pool=20)
    serve(kv, 0, 1)
    other = memory(hbm=20)
    other.pool, other.pool_link = kv.pool, Link(1e6)
    assert other.find(turn_of(0, 1, more=0)) == Found(hbm=0, pool=6)


def test_a_dead_replica_loses_its_host_memory_and_not_the_pool():
    kv = memory(hbm=8, host=20, pool=20)
    serve(kv, 0, 1)
    serve(kv, 2)
    kv.reset()
    assert kv.find(turn_of(0, 1)) == Found(hbm=0, host=0, pool=7)


def test_what_a_dead_replica_was_loading_delays_nobody_after_it():
    kv = memory(hbm=8, host=20, pool=20)
    kv.load(Found(hbm=0, host=1000, pool=1000), (0,), 0)
    kv.reset()
    found = Found(hbm=0, host=2, pool=1)
    assert kv.load(found, (0,), 5) == 5 + 2 * BYTES * FS_PER_S // 10**6


def play(cache_type=RunCache, **tiers):
    rows = [growing(6, first=4, step=3, gap_s=5) for _ in range(4)]
    one = scenes.setup(replicas=1, kv_blocks=40, sessions_at_once=4, tiers=Tiers(**tiers))
    return scenes.play(build_workload(trace_of(*rows)), one, cache_type)


def hits(outcome):
    return [sum(getattr(one.found, tier) for one in outcome.requests) for tier in ("hbm", "host", "pool")]


def test_a_host_tier_brings_back_what_hbm_alone_would_compute_again():
    without, beside = hits(play()), hits(play(host_blocks=200))
    assert without[1] == 0 < beside[1]
    assert sum(beside) > sum(without)


def test_an_endless_lower_tier_finds_what_endless_hbm_finds():
    rows = [growing(6, first=4, step=3, gap_s=5) for _ in range(4)]
    endless = scenes.play(
        build_workload(trace_of(*rows)), scenes.setup(replicas=1, kv_blocks=4000, sessions_at_once=4)
    )
    assert sum(hits(play(host_blocks=4000))) == sum(hits(endless))


def test_a_first_token_waits_for_a_slow_link():
    fast, slow = play(host_blocks=200, host_bytes_per_s=1e12), play(host_blocks=200, host_bytes_per_s=1e5)
    assert slow.end_us > 2 * fast.end_us
    assert sum(one.loading_fs for one in slow.requests) > sum(one.loading_fs for one in fast.requests) > 0


def test_whoever_waits_for_a_load_is_not_preempted(monkeypatch):
    were_ready = []

    class Watched(Replica):
        def _preempt(self, seat, at):
            were_ready.append(seat.ready_at <= at)
            super()._preempt(seat, at)

    monkeypatch.setattr("simworkers.agents.serving.cluster.Replica", Watched)
    sessions = [growing(6, first=3, step=2, gap_s=0, out=20) for _ in range(5)]
    one = scenes.setup(
        replicas=1, kv_blocks=34, sessions_at_once=5, tiers=Tiers(host_blocks=60, host_bytes_per_s=1e6)
    )
    outcome = scenes.play(build_workload(trace_of(*sessions)), one)
    assert sum(one.loading_fs > 0 for one in outcome.requests) > 1
    assert len(were_ready) > 1
    assert all(were_ready)


@pytest.mark.parametrize(
    "tiers", [{"host_blocks": 9}, {"pool_blocks": 13}, {"host_blocks": 9, "pool_blocks": 13}]
)
def test_tiers_under_runs_hold_what_tiers_under_single_blocks_hold(tiers):
    assert scenes.facts(play(**tiers)) == scenes.facts(play(NaiveCache, **tiers))
