"""What a learner may set in the tasks that are scored between other ways to serve. Pydantic alone."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel

Params = TypeVar("Params", bound=BaseModel)

THROUGHPUT = (
    "replicas",
    "tensor_parallel",
    "pipeline_parallel",
    "policy",
    "balance_absolute",
    "balance_percent",
    "least_cached_percent",
    "saturated_queue",
    "saturated_kv_percent",
    "override_percent",
    "token_budget",
    "prefill_cap_tokens",
    "max_requests",
)
SURVIVAL = (
    "policy",
    "balance_absolute",
    "balance_percent",
    "least_cached_percent",
    "saturated_queue",
    "saturated_kv_percent",
    "override_percent",
    "host_gb",
    "pool_gb",
)
ROUTING = (
    "weight_cached",
    "weight_same_replica",
    "weight_queued",
    "weight_pending_tokens",
    "weight_kv_held",
)
TIERS = ("host_gb", "pool_gb")
CAPS = ("token_budget", "prefill_cap_tokens")
OPEN = {"throughput": THROUGHPUT, "survival": SURVIVAL, "routing": ROUTING}


def with_defaults(params: Params, names: Iterable[str]) -> Params:
    """These parameters put back to their defaults: what somebody is scored between must not hang on what he sets."""
    fields = type(params).model_fields
    return params.model_copy(update={name: fields[name].default for name in names})
