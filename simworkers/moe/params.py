"""The knobs of the MoE lab. Pydantic alone, so that a web process can read schemas without torch."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from simworkers.fields import form
from simworkers.moe.handed_in import SHAPE_FIELDS, refuse_faults
from simworkers.moe.model_params import ModelParams
from simworkers.moe.traffic_params import TrafficParams

MAX_REDUNDANT_SLOTS = 8  # a GPU

# What one core computes in well under 120 s (docs/labs/moe-eplb.md has the measurements). Work is counted in µs of
# a common core: one for a token copy, and what a slot costs in every step and in every rebalance.
MAX_ROUTED_COPIES = 48_000_000
MAX_WORK_US = 72_000_000
SLOT_STEP_US = 22
SLOT_REBALANCE_US = 68


# Pydantic puts the fields of the last base first: a form begins with the hardware.
class MoeParams(TrafficParams, ModelParams):
    """One frozen object; unknown keys, NaN and infinities are refused.

    Checks across fields stand on the later of the fields that they compare, so that an error points at one.
    """

    warmup_steps: int = Field(
        4,
        ge=1,
        le=64,
        description="Steps before the measured ones: load is recorded, metrics are not.",
        json_schema_extra=form("Run", "steps"),
    )
    num_steps: int = Field(
        16, ge=1, le=256, description="Measured steps.", json_schema_extra=form("Run", "steps")
    )
    eplb: bool = Field(
        False,
        description="Whether the balancer runs. Off: experts stay where contiguous placement puts them, "
        "without copies.",
        json_schema_extra=form("Balancer", ""),
    )
    eplb_policy: Literal["auto", "hierarchical", "global"] = Field(
        "auto",
        description="Hierarchical keeps every copy of a group inside one node; global does not; "
        "auto is hierarchical where groups divide by more than one node.",
        json_schema_extra=form("Balancer", ""),
    )
    redundant_slots_per_gpu: int = Field(
        0,
        ge=0,
        le=MAX_REDUNDANT_SLOTS,
        description="Extra slots on each GPU, in every layer, for copies of busy experts. Ignored while "
        "EPLB is off.",
        json_schema_extra=form("Balancer", "slots"),
    )
    window_steps: int = Field(
        4,
        ge=1,
        le=64,
        description="Latest steps whose recorded load the balancer sums.",
        json_schema_extra=form("Balancer", "steps"),
    )
    interval_steps: int = Field(
        8,
        ge=1,
        le=256,
        description="Steps between rebalances; the first one comes at the end of the warm-up.",
        json_schema_extra=form("Balancer", "steps"),
    )
    placement: list[list[int]] | None = Field(
        None,
        description="[layer][slot] → expert, instead of what the balancer would choose: put in place at the end of "
        "the warm-up and kept. Ignored while EPLB is off.",
        json_schema_extra=form("Balancer", "expert index"),
    )
    hbm_budget_gb: float = Field(
        1000.0,
        ge=0,
        le=100_000,
        description="HBM that extra copies may take: all GPUs, all MoE layers of the model profile.",
        json_schema_extra=form("Memory", "GB"),
    )
    hbm_reserve_percent: int = Field(
        10,
        ge=0,
        le=50,
        description="Share of each GPU's HBM kept for activations and the runtime.",
        json_schema_extra=form("Memory", "%"),
    )
    resident_kv_tokens_per_gpu: int = Field(
        200_000,
        ge=0,
        le=10_000_000,
        description="Context tokens whose KV each GPU has to hold to serve all its requests at once.",
        json_schema_extra=form("Memory", "tokens"),
    )

    @field_validator("num_steps")
    @classmethod
    def _run_is_bounded(cls, steps: int, info: ValidationInfo) -> int:
        names = ("tokens_per_step", "top_k", "num_layers", "warmup_steps")
        values = [info.data.get(name) for name in names]
        if None in values:
            return steps
        tokens, top_k, layers, warmup = (int(value) for value in values if value is not None)
        routed = tokens * top_k * layers * (warmup + steps)
        if routed > MAX_ROUTED_COPIES:
            raise ValueError(
                f"tokens_per_step × top_k × num_layers × (warmup_steps + num_steps) = {routed:,} routed "
                f"token copies; "
                f"at most {MAX_ROUTED_COPIES:,}"
            )
        return steps

    @field_validator("interval_steps")
    @classmethod
    def _work_is_bounded(cls, interval: int, info: ValidationInfo) -> int:
        known = info.data
        names = (
            "tokens_per_step",
            "top_k",
            "num_layers",
            "warmup_steps",
            "num_steps",
            "num_experts",
            "num_gpus",
        )
        if any(name not in known for name in (*names, "eplb", "redundant_slots_per_gpu")):
            return interval
        copies = known["tokens_per_step"] * known["top_k"]
        slots = known["num_experts"] + known["redundant_slots_per_gpu"] * known["num_gpus"] * known["eplb"]
        steps = known["warmup_steps"] + known["num_steps"]
        rebalances = -(-known["num_steps"] // interval) * known["eplb"]
        in_steps = steps * (copies + SLOT_STEP_US * min(slots, copies))
        work = known["num_layers"] * (in_steps + SLOT_REBALANCE_US * rebalances * slots)
        if work > MAX_WORK_US:
            raise ValueError(
                f"this run would take about {work // 1_000_000:,} s of one core, at most {MAX_WORK_US // 1_000_000}: "
                "use fewer num_layers, num_steps or slots, or a longer interval_steps"
            )
        return interval

    @field_validator("eplb_policy")
    @classmethod
    def _groups_fill_nodes(cls, policy: str, info: ValidationInfo) -> str:
        groups, nodes = info.data.get("num_groups"), info.data.get("num_nodes")
        if policy == "hierarchical" and groups is not None and nodes is not None and groups % nodes:
            raise ValueError(
                f"hierarchical needs num_groups = {groups} to divide evenly by num_nodes = {nodes}"
            )
        return policy

    @field_validator("placement")
    @classmethod
    def _placement_fits(
        cls, placement: list[list[int]] | None, info: ValidationInfo
    ) -> list[list[int]] | None:
        if placement is not None and all(name in info.data for name in SHAPE_FIELDS):
            refuse_faults(placement, info.data)
        return placement

    @property
    def extra_slots_per_gpu(self) -> int:
        """The redundant slots that there are: none while EPLB is off."""
        return self.redundant_slots_per_gpu if self.eplb else 0

    def expected_seconds(self) -> float:
        """Of a run on one core, roughly: a second, and one for every 800,000 routed token copies."""
        steps = self.warmup_steps + self.num_steps
        return 1 + self.tokens_per_step * self.top_k * self.num_layers * steps / 800_000
