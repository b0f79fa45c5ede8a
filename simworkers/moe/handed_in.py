"""A placement that a person hands in, checked slot by slot. Pydantic alone.

Slot s lies on GPU s // (slots/GPUs), GPU g on node g // (GPUs/nodes); groups are runs of neighbouring experts.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

SHAPE_FIELDS = ("num_gpus", "num_nodes", "num_experts", "num_layers", "num_groups", "redundant_slots_per_gpu")
MAX_FAULTS = 20  # a placement for another cluster has one at every slot

Fault = tuple[tuple[int, ...], str]  # (layer,) or (layer, slot), sentence


class PlacementArtefact(BaseModel):
    """Which expert lies in which slot, of every layer. Validated with {"params": parameters of the instance}."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    placement: list[list[int]] = Field(
        description="[layer][slot] → expert. Slot s lies on GPU s ÷ (slots ÷ GPUs), rounded down. Every expert needs "
        "a slot in every layer; an expert in several slots shares its tokens evenly between them.",
        json_schema_extra={"unit": "expert index, from 0"},
    )

    @field_validator("placement")
    @classmethod
    def _fits_the_instance(cls, placement: list[list[int]], info: ValidationInfo) -> list[list[int]]:
        params = (info.context or {}).get("params")
        if params is not None:
            refuse_faults(placement, params)
        return placement


def refuse_faults(placement: list[list[int]], params: Mapping[str, Any]) -> None:
    """ValidationError with the place of every fault (the first MAX_FAULTS). params: at least SHAPE_FIELDS."""
    faults = [fault for _, fault in zip(range(MAX_FAULTS), find_faults(placement, params), strict=False)]
    if faults:
        lines = [
            InitErrorDetails(
                type=PydanticCustomError("placement", "{sentence}", {"sentence": sentence}),
                loc=place,
                input=None,
            )
            for place, sentence in faults
        ]
        raise ValidationError.from_exception_data("placement", lines)


def find_faults(placement: list[list[int]], params: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong, layer by layer. The node rule holds where groups divide over nodes, unless balancing is global."""
    layers, experts, gpus = params["num_layers"], params["num_experts"], params["num_gpus"]
    slots = experts + params["redundant_slots_per_gpu"] * gpus
    if len(placement) != layers:
        yield (), f"has {len(placement)} layers; it needs num_layers = {layers}"
        return
    for layer, row in enumerate(placement):
        if len(row) != slots:
            yield (
                (layer,),
                f"layer {layer} has {len(row)} slots; it needs {slots}, {slots // gpus} on each GPU",
            )
            continue
        unknown = [(slot, expert) for slot, expert in enumerate(row) if not 0 <= expert < experts]
        for slot, expert in unknown:
            yield (layer, slot), f"there is no expert {expert}; there are 0 … {experts - 1}"
        for expert in sorted(set(range(experts)) - set(row)):
            yield (layer,), f"layer {layer} has no slot for expert {expert}"
        if not unknown and _node_rule_holds_for(params):
            yield from _strays(layer, row, params)


def _node_rule_holds_for(params: Mapping[str, Any]) -> bool:
    nodes, groups, experts = params["num_nodes"], params["num_groups"], params["num_experts"]
    divides = nodes > 1 and groups % nodes == 0 and experts % groups == 0
    return divides and params.get("eplb_policy") != "global"


def _strays(layer: int, row: list[int], params: Mapping[str, Any]) -> Iterator[Fault]:
    """Slots whose expert's group has its home, the node of its first slot, elsewhere."""
    size, per_node = params["num_experts"] // params["num_groups"], len(row) // params["num_nodes"]
    home: dict[int, int] = {}
    for slot, expert in enumerate(row):
        group, node = expert // size, slot // per_node
        if home.setdefault(group, node) != node:
            members = (
                f"experts {group * size} … {group * size + size - 1}" if size > 1 else f"expert {expert}"
            )
            yield (
                (layer, slot),
                f"expert {expert} lies on node {node}, but group {group} ({members}) also lies on node "
                f"{home[group]}: all copies of a group share one node",
            )
