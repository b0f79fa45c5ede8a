"""Where a GPU's HBM goes: weights, extra copies, reserve, and the room that is left for KV."""

from dataclasses import dataclass

from simworkers.hardware import BYTES_PER_WEIGHT, GB, GPUS, MODELS
from simworkers.moe.params import MoeParams


@dataclass(frozen=True)
class HbmLedger:
    """One GPU, in bytes, over all MoE layers of the model profile; every GPU holds the same number of slots."""

    capacity: int
    reserve: int
    other_weights: int
    experts: int
    copies: int
    kv_demand: int
    kv_bytes_per_token: int

    @property
    def left(self) -> int:
        """What weights, copies and reserve leave; negative where they do not fit."""
        return self.capacity - self.reserve - self.other_weights - self.experts - self.copies

    @property
    def kv_room(self) -> int:
        return max(self.left, 0)

    @property
    def kv_room_tokens(self) -> int:
        return self.kv_room // self.kv_bytes_per_token

    def waiting_share(self) -> float:
        """Share of the time that serving all demand takes which is due to KV room below demand, 0 … 1.

        Room for half of the requests means that they are served in two turns: half of the time is waiting for room.
        """
        if self.kv_demand <= self.kv_room:
            return 0.0
        return 1.0 - self.kv_room / self.kv_demand


def keep_ledger(params: MoeParams, redundant_slots_per_gpu: int) -> HbmLedger:
    """The ledger with this many extra slots in every layer of every GPU."""
    gpu, model = GPUS[params.gpu_profile], MODELS[params.model_profile]
    slot_bytes = model.expert_bytes(params.weight_precision) * model.moe_layers
    return HbmLedger(
        capacity=gpu.hbm_bytes,
        reserve=gpu.hbm_bytes * params.hbm_reserve_percent // 100,
        other_weights=model.other_weights * BYTES_PER_WEIGHT[params.weight_precision],
        experts=params.num_experts // params.num_gpus * slot_bytes,
        copies=redundant_slots_per_gpu * slot_bytes,
        kv_demand=params.resident_kv_tokens_per_gpu * model.kv_bytes_per_token,
        kv_bytes_per_token=model.kv_bytes_per_token,
    )


def budget_bytes(params: MoeParams) -> int:
    """The budget for extra copies on all GPUs together."""
    return round(params.hbm_budget_gb * GB)
