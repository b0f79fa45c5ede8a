"""What is served, and the GPUs that serve it. Pydantic alone."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from simworkers.agents.room import kv_room_bytes
from simworkers.fields import StrictParams, form


class ClusterParams(StrictParams):
    """Copies of a model, each over its GPUs."""

    model: Literal["qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "llama-3.1-70b", "deepseek-v3"] = Field(
        "qwen3-32b", description="Whose shape is priced.", json_schema_extra=form("Cluster", "")
    )
    gpu: Literal["h100", "h200", "b200"] = Field(
        "h200", description="GPU of every replica.", json_schema_extra=form("Cluster", "")
    )
    gpu_budget: int = Field(
        0,
        ge=0,
        le=1024,
        description="replicas × tensor_parallel × pipeline_parallel must be so many; 0: they are free.",
        json_schema_extra=form("Cluster", "GPUs", zero="no limit"),
    )
    replicas: int = Field(
        4,
        ge=1,
        le=16,
        description="Copies of the model behind the router.",
        json_schema_extra=form("Cluster", ""),
    )
    tensor_parallel: Literal[1, 2, 4, 8] = Field(
        2,
        description="GPUs among which every layer of a copy is divided.",
        json_schema_extra=form("Cluster", "GPUs"),
    )
    pipeline_parallel: Literal[1, 2, 4, 8] = Field(
        1,
        description="Stages, one behind the other, into which a copy's layers are divided.",
        json_schema_extra=form("Cluster", "stages"),
    )
    link: Literal["nvlink", "network"] = Field(
        "nvlink",
        description="What connects the GPUs of a replica: NVLink, or the network between nodes.",
        json_schema_extra=form("Cluster", ""),
    )
    kv_blocks: int = Field(
        0,
        ge=0,
        le=4_000_000,
        description="KV blocks of a replica; 0: what HBM has left beside the weights, by default 11,217 blocks of 64 "
        "tokens or 188 GB. Drawn sessions have blocks of 64 tokens, rows without sessions of 512, recorded sessions "
        "say it. More than fits is played, and the report says so.",
        json_schema_extra=form("Cluster", "blocks", zero="what HBM has left"),
    )

    @field_validator("pipeline_parallel")
    @classmethod
    def _gpus_are_those_that_there_are(cls, stages: int, info: ValidationInfo) -> int:
        budget, replicas, shards = (
            info.data.get(name) for name in ("gpu_budget", "replicas", "tensor_parallel")
        )
        if budget and replicas and shards and replicas * shards * stages != budget:
            raise ValueError(
                f"{replicas} replicas × {shards} × {stages} are {replicas * shards * stages} GPUs, not {budget}"
            )
        return stages

    @field_validator("pipeline_parallel")
    @classmethod
    def _gpus_hold_the_model(cls, stages: int, info: ValidationInfo) -> int:
        model, gpu, shards = (info.data.get(name) for name in ("model", "gpu", "tensor_parallel"))
        if model and gpu and shards:
            kv_room_bytes(model, gpu, shards, stages)
        return stages
