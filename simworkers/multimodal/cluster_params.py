"""What a simulated cluster of multimodal servers is, and what it is asked. Pydantic alone."""

from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from simworkers.fields import Params, form

ModelName = Literal[
    "qwen2-vl-7b", "qwen2.5-vl-7b", "qwen2.5-vl-72b", "qwen3-vl-4b", "qwen3-vl-235b-a22b", "internvl2-26b"
]
GpuName = Literal["h100", "h200", "b200", "a100", "h20"]


class ClusterParams(Params):
    """One frozen object. Checks across fields stand on the later of the fields that they compare."""

    model: ModelName = Field(
        "internvl2-26b",
        description="Vision-language model whose shapes are priced.",
        json_schema_extra=form("Hardware", ""),
    )
    gpu: GpuName = Field("h100", description="GPU of every worker.", json_schema_extra=form("Hardware", ""))
    num_gpus: int = Field(
        8, ge=1, le=64, description="GPUs of the whole cluster.", json_schema_extra=form("Hardware", "GPUs")
    )
    encoder_workers: int = Field(
        0,
        ge=0,
        le=63,
        description="GPUs that only encode images. 0: every worker encodes, prefills and decodes (colocated).",
        json_schema_extra=form("Hardware", "GPUs"),
    )
    tensor_parallel: int = Field(
        2,
        ge=1,
        le=8,
        description="GPUs that share one copy of the language model. An encoder never spans GPUs.",
        json_schema_extra=form("Hardware", "GPUs"),
    )
    spread_images: bool = Field(
        False,
        description="Colocated, the GPUs of a group share a step's images out; else one encodes and all wait.",
        json_schema_extra=form("Hardware", ""),
    )
    hbm_share_percent: int = Field(
        90,
        ge=10,
        le=100,
        description="Share of HBM for weights and KV; the rest is activations and runtime.",
        json_schema_extra=form("Hardware", "%"),
    )
    client_bytes_per_s: float = Field(
        125e6,
        ge=1e4,
        le=1e11,
        description="Upload link of a client.",
        json_schema_extra=form("Links", "B/s"),
    )
    link_bytes_per_s: float = Field(
        50e9,
        ge=1e6,
        le=1e12,
        description="Link of one encoder worker to the prefill workers.",
        json_schema_extra=form("Links", "B/s"),
    )
    link_latency_us: int = Field(
        200,
        ge=0,
        le=1_000_000,
        description="Time from a finished embedding to its arrival, besides its bytes.",
        json_schema_extra=form("Links", "µs"),
    )
    requests_per_s: float = Field(
        4.0,
        ge=0.01,
        le=1000,
        description="Mean rate of a Poisson process.",
        json_schema_extra=form("Load", "1/s"),
    )
    num_requests: int = Field(
        200, ge=1, le=2000, description="Requests that arrive.", json_schema_extra=form("Load", "requests")
    )
    horizon_s: int = Field(
        600,
        ge=1,
        le=3600,
        description="End of the simulation; a request that has not finished by then counts as unfinished.",
        json_schema_extra=form("Load", "s"),
    )
    image_share_percent: int = Field(
        100, ge=0, le=100, description="Requests that bring images.", json_schema_extra=form("Load", "%")
    )
    images_min: int = Field(
        4,
        ge=1,
        le=32,
        description="Fewest images of such a request.",
        json_schema_extra=form("Load", "images"),
    )
    images_max: int = Field(
        4,
        ge=1,
        le=32,
        description="Most images of such a request.",
        json_schema_extra=form("Load", "images"),
    )
    image_width_px: int = Field(
        1920, ge=28, le=4096, description="Width of every image.", json_schema_extra=form("Load", "px")
    )
    image_height_px: int = Field(
        1080, ge=28, le=4096, description="Height of every image.", json_schema_extra=form("Load", "px")
    )
    image_bytes: int = Field(
        280_000,
        ge=0,
        le=50_000_000,
        description="Size of every image's file.",
        json_schema_extra=form("Load", "B"),
    )
    encoder_hit_percent: int = Field(
        0,
        ge=0,
        le=100,
        description="Images whose embeddings an encoder cache holds already.",
        json_schema_extra=form("Load", "%"),
    )
    text_tokens_min: int = Field(
        64, ge=1, le=16_384, description="Shortest text.", json_schema_extra=form("Load", "tokens")
    )
    text_tokens_max: int = Field(
        192, ge=1, le=16_384, description="Longest text.", json_schema_extra=form("Load", "tokens")
    )
    output_tokens_min: int = Field(
        128, ge=1, le=4096, description="Shortest answer.", json_schema_extra=form("Load", "tokens")
    )
    output_tokens_max: int = Field(
        384, ge=1, le=4096, description="Longest answer.", json_schema_extra=form("Load", "tokens")
    )
    token_budget: int = Field(
        4096,
        ge=64,
        le=32_768,
        description="Tokens a step of the language model takes: one a decoding request, the rest prefill chunks.",
        json_schema_extra=form("Scheduler", "tokens"),
    )
    max_batch: int = Field(
        256,
        ge=1,
        le=1024,
        description="Requests that one worker holds at once.",
        json_schema_extra=form("Scheduler", "requests"),
    )
    encoder_batch_images: int = Field(
        8,
        ge=1,
        le=64,
        description="Most images that an encoder worker takes at once.",
        json_schema_extra=form("Scheduler", "images"),
    )
    step_overhead_us: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Host time of every step and every encode that the GPU waits for; 0 is the bare roofline.",
        json_schema_extra=form("Scheduler", "µs"),
    )

    @field_validator("encoder_workers")
    @classmethod
    def _leave_a_gpu(cls, value: int, info: ValidationInfo) -> int:
        gpus = info.data.get("num_gpus")
        if gpus is not None and value >= gpus:
            raise ValueError(f"{value} encoder workers leave none of {gpus} GPUs for prefill and decode")
        return value

    @field_validator("tensor_parallel")
    @classmethod
    def _fill_groups(cls, value: int, info: ValidationInfo) -> int:
        gpus, encoders = info.data.get("num_gpus"), info.data.get("encoder_workers")
        if gpus is not None and encoders is not None and (gpus - encoders) % value:
            raise ValueError(f"{gpus - encoders} GPUs do not fill groups of {value} evenly")
        return value

    @field_validator("images_max", "text_tokens_max", "output_tokens_max")
    @classmethod
    def _order(cls, value: int, info: ValidationInfo) -> int:
        assert info.field_name is not None
        least = info.data.get(info.field_name.replace("_max", "_min"))
        if least is not None and value < least:
            raise ValueError(f"the most, {value}, is below the least, {least}")
        return value

    @field_validator("max_batch")
    @classmethod
    def _leave_room_for_prefill(cls, value: int, info: ValidationInfo) -> int:
        budget = info.data.get("token_budget")
        if budget is not None and value > budget:
            raise ValueError(f"{value} decoding requests do not fit a step of {budget} tokens")
        return value

    @property
    def decoder_workers(self) -> int:
        return (self.num_gpus - self.encoder_workers) // self.tensor_parallel

    def with_changes(self, **changes: Any) -> Self:
        """The same with some fields changed, checked again."""
        return type(self).model_validate(self.model_dump() | changes)
