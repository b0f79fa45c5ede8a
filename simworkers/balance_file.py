"""Files of balancing cases, as the shell's `balance` reads them. Pydantic and the standard library alone."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Load = Annotated[float, Field(ge=0, le=1e15)]


class BalanceCase(BaseModel):
    """One problem: load [L][E], and the cluster that it has to be placed on. Keys of other tools are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    name: str = Field(max_length=200)
    num_gpus: int = Field(ge=1, le=1024)
    num_nodes: int = Field(ge=1, le=256)
    num_groups: int = Field(ge=1, le=1024)
    num_slots: int = Field(ge=1, le=4096)
    load: list[list[Load]] = Field(min_length=1, max_length=256)

    @field_validator("num_nodes")
    @classmethod
    def _nodes_share_gpus(cls, nodes: int, info: ValidationInfo) -> int:
        gpus = info.data.get("num_gpus")
        if gpus is not None and gpus % nodes:
            raise ValueError(f"{gpus} GPUs do not fill {nodes} nodes evenly")
        return nodes

    @field_validator("num_slots")
    @classmethod
    def _slots_fill_gpus(cls, slots: int, info: ValidationInfo) -> int:
        gpus = info.data.get("num_gpus")
        if gpus is not None and slots % gpus:
            raise ValueError(f"{slots} slots do not fill {gpus} GPUs evenly")
        return slots

    @field_validator("load")
    @classmethod
    def _load_fits(cls, load: list[list[float]], info: ValidationInfo) -> list[list[float]]:
        experts = len(load[0])
        if not experts or any(len(layer) != experts for layer in load):
            raise ValueError("every layer needs the same number of experts, at least one")
        slots, groups = info.data.get("num_slots"), info.data.get("num_groups")
        if slots is not None and experts > slots:
            raise ValueError(f"{slots} slots cannot hold {experts} experts")
        if groups is not None and experts % groups:
            raise ValueError(f"{experts} experts do not fill {groups} groups evenly")
        return load


class BalanceFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="ignore")

    cases: list[BalanceCase] = Field(min_length=1, max_length=1000)
