"""What a learner commits before a graded run of the agent lab. Pydantic alone."""

from pydantic import BaseModel, ConfigDict, Field

MOST_TOKENS = 1_000_000


class CachedSharePrediction(BaseModel):
    """How much of the watched turn's prompt is found."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    cached_tokens: int = Field(
        ge=0,
        le=MOST_TOKENS,
        description="Leading tokens of the watched prompt whose KV is found, in HBM or host memory. Full blocks only.",
        json_schema_extra={"unit": "tokens"},
    )
    new_tokens: int = Field(
        ge=1,
        le=MOST_TOKENS,
        description="Tokens of the watched prompt that have to be computed: all others.",
        json_schema_extra={"unit": "tokens"},
    )


class ThroughputPrediction(BaseModel):
    """What the cluster will give at the largest load that keeps the floor."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    sessions_at_once: int = Field(
        ge=0,
        le=256,
        description="The largest number of sessions at once that keeps the floor, with none below it that breaks it.",
        json_schema_extra={"unit": "sessions"},
    )
    tokens_per_gpu_s: float = Field(
        ge=0,
        le=1e5,
        description="Output tokens per GPU-second at that load, all GPUs counted.",
        json_schema_extra={"unit": "tokens/s", "label": "Output tokens per GPU-second"},
    )


class SurvivalPrediction(BaseModel):
    """What users will feel of the death."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    ttft_mean_us: float = Field(
        gt=0,
        le=1e11,
        description="Mean TTFT over all requests, those included that were sent again.",
        json_schema_extra={"unit": "µs"},
    )
    moves: int = Field(
        ge=0,
        le=1_000_000,
        description="Times that a session goes to another replica than before.",
        json_schema_extra={"unit": "times"},
    )


class RoutingPrediction(BaseModel):
    """What the score will give on sessions that nobody has seen."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    hit_rate: float = Field(
        ge=0,
        le=1,
        description="Cached ÷ prompt tokens; a refused prompt found none.",
        json_schema_extra={"unit": "fraction"},
    )
    waited_tokens_per_s: float = Field(
        ge=0,
        le=1e5,
        description="Output tokens ÷ seconds that all requests take, from sending to the last token.",
        json_schema_extra={"unit": "tokens/s", "label": "Output tokens per second of waiting"},
    )


class TiersPrediction(BaseModel):
    """What the memory that is bought will find."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    hit_rate: float = Field(
        ge=0,
        le=1,
        description="Cached ÷ prompt tokens over the whole run, HBM and both tiers together.",
        json_schema_extra={"unit": "fraction"},
    )


class CapPrediction(BaseModel):
    """What those who decode will feel under the cap that is handed in."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    interactivity_p10: float = Field(
        gt=0,
        le=10_000,
        description="10th percentile of interactivity: nine of ten requests are faster.",
        json_schema_extra={"unit": "tokens/s"},
    )


class PipelinePrediction(BaseModel):
    """How far the pipeline will win and lose in the probes that are handed in."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    wins_ratio: float = Field(
        gt=0,
        le=100,
        description="Output tokens per GPU-second in the first probe, pipeline ÷ tensor parallelism.",
        json_schema_extra={"unit": "ratio", "label": "Pipeline ÷ tensor, first probe"},
    )
    loses_ratio: float = Field(
        gt=0,
        le=100,
        description="The same in the second probe.",
        json_schema_extra={"unit": "ratio", "label": "Pipeline ÷ tensor, second probe"},
    )
