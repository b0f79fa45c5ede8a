"""What a learner commits before a graded balancing run. Pydantic alone."""

from pydantic import BaseModel, ConfigDict, Field


class BalancePrediction(BaseModel):
    """The straggler before any balancing, and how far it stands out."""

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
