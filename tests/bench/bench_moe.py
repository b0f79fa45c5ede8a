"""Where the time of MoE runs goes: `python -m tests.bench.bench_moe`. Asserts nothing."""

import time
from typing import Any

from simworkers.moe.balance_task import prepare
from simworkers.moe.figures import draw
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate

BALANCED = {"eplb": True, "redundant_slots_per_gpu": 1}
WIDE = {"num_experts": 256, "top_k": 8, "num_gpus": 64, "num_nodes": 8, "num_groups": 8, "num_layers": 8}
SCENES: dict[str, dict[str, Any]] = {
    "default": {},
    "default, balanced": BALANCED,
    "decode": BALANCED | {"tokens_per_step": 256, "chunk_tokens": 1},
    "wide, 8 layers": BALANCED | WIDE | {"num_steps": 4},
}


def silent(_done: int, _total: int) -> None:
    pass


def main() -> None:
    simulate(MoeParams(num_steps=1), 0, silent)  # warm
    print("scene                 CPU s   wall s   µs a token copy")
    for name, values in SCENES.items():
        params = MoeParams.model_validate(values)
        wall, cpu = time.perf_counter(), time.process_time()
        report = simulate(params, 0, silent)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        steps = (params.warmup_steps + params.num_steps) / params.num_steps
        print(f"{name:20} {cpu:6.2f} {wall:8.2f} {cpu * 1e6 / report.metrics['routed_copies'] / steps:12.2f}")
    for name, work in (("figures", lambda: draw(report)), ("a task instance", lambda: prepare(0, silent))):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        print(f"{name:20} {time.process_time() - cpu:6.2f} {time.perf_counter() - wall:8.2f}")


if __name__ == "__main__":
    main()
