"""GPUs and the model that is spread over them. Pydantic alone."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from simworkers.fields import Params, form


class ModelParams(Params):
    """Experts in layers, and the hardware whose costs are accounted."""

    model_profile: Literal["deepseek-v3", "mixtral-8x7b", "qwen3-30b-a3b"] = Field(
        "deepseek-v3",
        description="Whose expert shape, layer count and KV size the cost model and the HBM ledger account. "
        "The torch experts that really run are far smaller.",
        json_schema_extra=form("Hardware", ""),
    )
    gpu_profile: Literal["h100", "h200", "b200"] = Field(
        "h100", description="The GPU that the cost model accounts.", json_schema_extra=form("Hardware", "")
    )
    weight_precision: Literal["fp8", "bf16"] = Field(
        "fp8",
        description="Precision of the expert weights and their GEMMs in the cost model.",
        json_schema_extra=form("Hardware", ""),
    )
    num_gpus: Literal[1, 2, 4, 8, 16, 32, 64] = Field(
        4,
        description="GPUs that the experts of every layer are spread over.",
        json_schema_extra=form("Hardware", "GPUs"),
    )
    num_nodes: Literal[1, 2, 4, 8] = Field(
        1,
        description="Nodes that hold the GPUs; NVLink inside a node, the network between nodes.",
        json_schema_extra=form("Hardware", "nodes"),
    )
    num_experts: Literal[8, 16, 32, 64, 128, 256] = Field(
        8, description="Routed experts in every layer.", json_schema_extra=form("Model", "experts")
    )
    top_k: int = Field(
        2,
        ge=1,
        le=8,
        description="Experts that each token is sent to.",
        json_schema_extra=form("Model", "experts"),
    )
    num_layers: int = Field(
        4,
        ge=1,
        le=61,
        description="MoE layers that are simulated. The HBM ledger accounts all MoE layers of the model "
        "profile.",
        json_schema_extra=form("Model", "layers"),
    )
    num_groups: Literal[1, 2, 4, 8] = Field(
        4,
        description="Groups of neighbouring experts; hierarchical balancing keeps a group inside one node.",
        json_schema_extra=form("Model", "groups"),
    )
    checkpoint_seed: int = Field(
        0,
        ge=0,
        le=2**31 - 1,
        description="Which checkpoint: draws the fitted gate and the numbering of the experts of every "
        "layer.",
        json_schema_extra=form("Model", ""),
    )

    @field_validator("num_nodes")
    @classmethod
    def _nodes_hold_gpus(cls, nodes: int, info: ValidationInfo) -> int:
        gpus = info.data.get("num_gpus")
        if gpus is not None and nodes > gpus:
            raise ValueError(f"{nodes} nodes cannot share num_gpus = {gpus} GPUs")
        return nodes

    @field_validator("num_experts")
    @classmethod
    def _experts_fill_gpus(cls, experts: int, info: ValidationInfo) -> int:
        gpus = info.data.get("num_gpus")
        if gpus is not None and experts < gpus:
            raise ValueError(f"{experts} experts leave some of num_gpus = {gpus} GPUs empty")
        return experts
