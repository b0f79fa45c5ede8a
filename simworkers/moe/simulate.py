"""One run of the MoE lab: parameters and a seed in, a report out. No clock decides anything that is reported."""

import time
from typing import Any

import numpy as np
import torch

from simworkers.catalog import engine_version
from simworkers.hardware import GPUS, MODELS
from simworkers.jobs import Progress, Report
from simworkers.moe.engine import Engine
from simworkers.moe.gate import load_common
from simworkers.moe.ledger import HbmLedger, budget_bytes, keep_ledger
from simworkers.moe.marks import measure_marks
from simworkers.moe.metrics import MoeMetrics
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import FloatArray
from simworkers.moe.rehearsal import imbalance_removed
from simworkers.moe.tally import US, Tally
from simworkers.provenance import provenance
from simworkers.rng import Stream, equal_multinomial
from simworkers.threads import torch_threads

LAB = "moe-eplb"
FLOOR_DRAWS = 1000
FLOOR_BLOCK = 100  # draws between two signs of life


def warm() -> None:
    """What every run of a process shares, loaded before the first one asks; a first run pays for much of torch."""
    load_common()
    simulate(
        MoeParams(num_layers=1, tokens_per_step=64, warmup_steps=1, num_steps=1),
        0,
        lambda _done, _total: None,
    )


def simulate(
    params: MoeParams, seed: int, progress: Progress, *, device: str = "cpu", threads: int = 1
) -> Report:
    """Run it. threads: of torch inside this process; counts are equal for any, float bits are promised for 1."""
    started_s = time.perf_counter()
    with torch_threads(threads):
        with torch.inference_mode():
            engine = Engine(params, seed, progress, device)
            engine.run()
        metrics = _measure(engine, seed)
    return Report(
        lab=LAB,
        engine_version=engine_version(LAB),
        seed=seed,
        params=params.model_dump(),
        metrics=metrics.model_dump(),
        invariants=engine.checks.invariants,
        provenance=provenance(device, threads, started_s)
        | {
            "corpus_seams": sum(traffic.seams for traffic in engine.traffic),
            "shuffle_max_difference": engine.shuffle_difference,
        },
    )


def sampling_floor(total: int, gpus: int, seed: int, progress: Progress, done: int) -> float:
    """Mean max/mean of FLOOR_DRAWS draws of Multinomial(total, 1/gpus). progress is told `done` of `done` steps."""
    stream, largest = Stream(seed, "sampling floor"), 0
    for _ in range(FLOOR_DRAWS // FLOOR_BLOCK):
        largest += int(equal_multinomial(stream, total, gpus, FLOOR_BLOCK).max(axis=1).sum())
        progress(done, done)
    return largest / FLOOR_DRAWS / (total / gpus)


def _measure(engine: Engine, seed: int) -> MoeMetrics:
    params = engine.params
    total = params.tokens_per_step * params.top_k
    floor = sampling_floor(total, params.num_gpus, seed, engine.progress, engine.total_steps)
    before, after = keep_ledger(params, 0), keep_ledger(params, params.extra_slots_per_gpu)
    return MoeMetrics.model_validate(
        _imbalance(engine, floor)
        | measure_marks(params, np.array(engine.counts), engine.cost, engine.tick)
        | _times(engine, before, after)
        | _moves(engine)
        | _memory(engine, after)
        | _arrays(engine)
    )


def _imbalance(engine: Engine, floor: float) -> dict[str, Any]:
    before, chosen = engine.before.imbalance(), engine.chosen.imbalance()
    contiguous, reached = float(before.mean()), float(chosen.mean())
    balanced_before, balanced = engine.before.balancedness(), engine.chosen.balancedness()
    return {
        "max_over_mean_before_mean": contiguous,
        "max_over_mean_before_max": float(before.max()),
        "max_over_mean_mean": reached,
        "max_over_mean_max": float(chosen.max()),
        "sampling_floor": floor,
        "imbalance_removed_share": imbalance_removed(contiguous, reached, floor),
        "balancedness_sum_before": balanced_before[0],
        "balancedness_sum": balanced[0],
        "balancedness_mean_before": balanced_before[1],
        "balancedness_mean": balanced[1],
        "straggler_gpu_before": engine.before.straggler(),
        "straggler_gpu": engine.chosen.straggler(),
        "step_max_over_mean_before": before.mean(axis=1).tolist(),
        "step_max_over_mean": chosen.mean(axis=1).tolist(),
        "routed_copies": int(engine.expert_load.sum()),
    }


def _times(engine: Engine, before: HbmLedger, after: HbmLedger) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for suffix, tally, ledger in (("_before", engine.before, before), ("", engine.chosen, after)):
        found |= _times_of(tally, ledger, engine.params.tokens_per_step, suffix)
    return found | {"speedup": found["step_time_before_us"] / found["step_time_us"]}


def _times_of(tally: Tally, ledger: HbmLedger, tokens: int, suffix: str) -> dict[str, Any]:
    step_us = tally.step_us()
    kv_waiting = ledger.waiting_share()
    compute, links, barrier = tally.per_gpu_us()
    shares = tally.shares(kv_waiting)
    return {
        f"step_time{suffix}_us": step_us,
        f"barrier_wait{suffix}_us": float(barrier.sum()),
        f"served_tokens_per_second{suffix}": tokens / step_us * US * (1.0 - kv_waiting),
        f"gpu_compute_us{suffix}": _listed(compute),
        f"gpu_links_us{suffix}": _listed(links),
        f"gpu_barrier_us{suffix}": _listed(barrier),
        **{f"share_{name}{suffix}": share for name, share in shares.items()},
    }


def _listed(values: FloatArray) -> list[float]:
    return [float(value) for value in values]


def _moves(engine: Engine) -> dict[str, Any]:
    params = engine.params
    model, gpu = MODELS[params.model_profile], GPUS[params.gpu_profile]
    expert_bytes = model.expert_bytes(params.weight_precision)
    # Weights that cross nodes go over the network; which ones do is not traced, so several nodes count as crossing.
    link = gpu.nvlink_bytes_per_s if params.num_nodes == 1 else gpu.network_bytes_per_s
    slots = [move.moved_slots for _, move in engine.moves]
    return {
        "rebalances": len(slots),
        "rebalance_steps": [measured for measured, _ in engine.moves],
        "moved_slots": sum(slots),
        "moved_bytes": sum(slots) * expert_bytes,
        "first_moved_share": slots[0] / engine.moves[0][1].source.size if slots else 0.0,
        "move_time_us": sum(int(move.moved.max()) for _, move in engine.moves) * expert_bytes / link * US,
        "expert_bytes": expert_bytes,
    }


def _memory(engine: Engine, ledger: HbmLedger) -> dict[str, Any]:
    gpus = engine.params.num_gpus
    extra, budget = ledger.copies * gpus, budget_bytes(engine.params)
    if extra > budget:
        event = f"{extra:,} bytes of extra copies, {budget:,} allowed"
        engine.checks.break_by_setting("copies_within_budget", event)
    if ledger.left < 0:
        event = f"every GPU lacks {-ledger.left:,} bytes for weights, copies and reserve"
        engine.checks.break_by_setting("fits_in_hbm", event)
    return {
        "extra_hbm_bytes": extra,
        "hbm_budget_bytes": budget,
        "within_budget": int(extra <= budget),
        "kv_room_bytes_per_gpu": ledger.kv_room,
        "kv_room_tokens_per_gpu": ledger.kv_room_tokens,
        "fits_in_hbm": int(ledger.left >= 0),
        "hbm_capacity_bytes": ledger.capacity,
        "hbm_reserve_bytes": ledger.reserve,
        "hbm_other_weights_bytes": ledger.other_weights,
        "hbm_expert_bytes": [ledger.experts] * gpus,
        "hbm_copies_bytes": [ledger.copies] * gpus,
        "hbm_kv_demand_bytes": ledger.kv_demand,
    }


def _arrays(engine: Engine) -> dict[str, Any]:
    return {
        "expert_load": engine.expert_load.tolist(),
        "gpu_load_before": engine.before.load().tolist(),
        "gpu_load": engine.chosen.load().tolist(),
        "placement": engine.placement.experts.tolist(),
    }
