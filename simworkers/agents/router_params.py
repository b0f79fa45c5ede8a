"""Which replica a request goes to. Pydantic alone."""

from typing import Any, Literal

from pydantic import Field

from simworkers.fields import StrictParams, form

PolicyName = Literal[
    "random",
    "round_robin",
    "least_queue",
    "least_tokens",
    "most_free_kv",
    "longest_prefix",
    "prefix_else_balance",
    "consistent_hash",
    "sticky",
    "sticky_least_queue",
    "sticky_override",
    "sticky_spill",
    "weighted",
]


def _weight(default: float, description: str) -> Any:
    return Field(
        default,
        ge=-10,
        le=10,
        description=f"Policy weighted: {description}",
        json_schema_extra=form("Score", ""),
    )


class RouterParams(StrictParams):
    """A policy, and the thresholds and weights that one or another policy looks at."""

    policy: PolicyName = Field(
        "sticky_spill",
        description="Which replica a request goes to. What each policy looks at stands at the top of the lab's page.",
        json_schema_extra=form("Router", ""),
    )
    balance_absolute: int = Field(
        64,
        ge=0,
        le=10_000,
        description="Policy prefix_else_balance: balances when loads differ by more requests …",
        json_schema_extra=form("Router", "requests", "Balance above a difference of"),
    )
    balance_percent: int = Field(
        150,
        ge=100,
        le=10_000,
        description="… and the most loaded has more than this of the least loaded.",
        json_schema_extra=form("Router", "%", "Balance above a ratio of"),
    )
    least_cached_percent: int = Field(
        50,
        ge=0,
        le=100,
        description="Policy prefix_else_balance: part of a prompt that must be cached for its prefix to count.",
        json_schema_extra=form("Router", "%"),
    )
    saturated_queue: int = Field(
        4,
        ge=1,
        le=10_000,
        description="Policy sticky_spill: a replica is saturated when so many requests wait …",
        json_schema_extra=form("Router", "requests"),
    )
    saturated_kv_percent: int = Field(
        90,
        ge=1,
        le=101,
        description="… or when requests hold so much of its KV. 101: KV is not looked at.",
        json_schema_extra=form("Router", "%"),
    )
    override_percent: int = Field(
        200,
        ge=100,
        le=100_000,
        description="Policy sticky_override: a session leaves a replica with more load than this of the least loaded.",
        json_schema_extra=form("Router", "%", "Override above a ratio of"),
    )
    weight_cached: float = _weight(1.0, "for the share of the prompt that a replica has in HBM.")
    weight_same_replica: float = _weight(0.0, "for the replica of the session's last request.")
    weight_queued: float = _weight(0.0, "against requests that wait, relative to the mean.")
    weight_pending_tokens: float = _weight(0.0, "against prompt tokens that wait, relative to the mean.")
    weight_kv_held: float = _weight(0.0, "against the share of KV that requests hold.")
    loads_percent: int = Field(
        100,
        ge=1,
        le=10_000,
        description="Policy weighted: what its three loads are multiplied by, before their weights.",
        json_schema_extra=form("Score", "%", "Loads count"),
    )
