"""Sums over the measured steps of one placement policy: load, imbalance, modelled time. N steps, L layers, G GPUs."""

from dataclasses import dataclass, field

import numpy as np

from simworkers.moe.cost import StepCost
from simworkers.moe.placement import FloatArray, IntArray, max_over_mean

US = 1e6


@dataclass
class Tally:
    """Filled step by step, then read once."""

    gpu_loads: list[IntArray] = field(default_factory=list)  # N × [L, G]
    costs: list[StepCost] = field(default_factory=list)  # N

    def add(self, gpu_load: IntArray, cost: StepCost) -> None:
        self.gpu_loads.append(gpu_load)
        self.costs.append(cost)

    def load(self) -> IntArray:
        """[L, G] over all steps."""
        return np.sum(self.gpu_loads, axis=0)  # type: ignore[no-any-return]

    def straggler(self) -> int:
        """The GPU with the most tokens over all steps and layers; the lowest index wins a tie."""
        return int(self.load().sum(axis=0).argmax())

    def imbalance(self) -> FloatArray:
        """[N, L] max ÷ mean."""
        return max_over_mean(np.array(self.gpu_loads))

    def balancedness(self) -> tuple[float, float]:
        """(Σ mean ÷ Σ max, mean of mean ÷ max) over (step, layer)."""
        loads = np.array(self.gpu_loads)
        ratio = float(loads.sum()) / loads.shape[2] / float(loads.max(axis=2).sum())
        return ratio, float((1.0 / self.imbalance()).mean())

    def step_us(self) -> float:
        return sum(cost.step_s for cost in self.costs) / len(self.costs) * US

    def per_gpu_us(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """([G] compute, [G] links, [G] waiting) of a step, mean over steps."""
        scale = US / len(self.costs)
        compute = sum((cost.hbm_s + cost.flops_s).sum(axis=0) for cost in self.costs) * scale
        links = sum(cost.links_s.sum(axis=0) for cost in self.costs) * scale
        waiting = sum(cost.barrier_s.sum(axis=0) for cost in self.costs) * scale
        return np.asarray(compute), np.asarray(links), np.asarray(waiting)

    def shares(self, kv_waiting: float) -> dict[str, float]:
        """What binds: shares of all GPU time, together 1. kv_waiting: share that waits for KV room."""
        seconds = {
            "hbm_bandwidth": sum(float(cost.hbm_s.sum()) for cost in self.costs),
            "flops": sum(float(cost.flops_s.sum()) for cost in self.costs),
            "links": sum(float(cost.links_s.sum()) for cost in self.costs),
            "barrier_wait": sum(float(cost.barrier_s.sum()) for cost in self.costs),
        }
        total = sum(seconds.values())
        shares = {name: value / total * (1.0 - kv_waiting) for name, value in seconds.items()}
        return shares | {"kv_capacity": kv_waiting}
