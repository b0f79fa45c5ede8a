"""What a learner commits before a graded run. Pydantic alone."""

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from simworkers.moe.traffic_params import LARGEST_STEP


class BalancePrediction(BaseModel):
    """The straggler before any balancing, and how far it stands out. Checked against {"params": the instance's}."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    straggler_gpu: int = Field(
        ge=0,
        le=63,
        description="GPU that receives the most tokens over all measured steps and layers while the "
        "balancer is off.",
        json_schema_extra={"unit": "GPU index, from 0"},
    )
    max_over_mean: float = Field(
        ge=1,
        le=64,
        description="Tokens of the busiest GPU ÷ mean over GPUs, averaged over measured steps and layers, "
        "balancer off.",
        json_schema_extra={"unit": "ratio"},
    )

    @field_validator("straggler_gpu")
    @classmethod
    def _is_a_gpu_of_the_instance(cls, gpu: int, info: ValidationInfo) -> int:
        gpus = (info.context or {}).get("params", {}).get("num_gpus")
        if gpus is not None and gpu >= gpus:
            raise ValueError(f"there is no GPU {gpu}; this instance has GPUs 0 … {gpus - 1}")
        return gpu


class PlacementPrediction(BaseModel):
    """How level the placement that is handed in will be."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_over_mean: float = Field(
        ge=1,
        le=64,
        description="Tokens of the busiest GPU ÷ mean over GPUs under your placement, averaged over measured steps "
        "and layers.",
        json_schema_extra={"unit": "ratio"},
    )


class BreakEvenPrediction(BaseModel):
    """From which step size on copies pay."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    break_even_tokens: int = Field(
        ge=1,
        le=LARGEST_STEP,
        description="Least step size of the whole group from which on a step is shorter with EPLB and its redundant "
        "slots than with contiguous placement.",
        json_schema_extra={"unit": "tokens"},
    )
