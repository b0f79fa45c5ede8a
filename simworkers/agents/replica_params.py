"""What a replica does with a step and with KV. Pydantic alone."""

from pydantic import Field

from simworkers.fields import StrictParams, form

CHEAPEST_USD = 0.001  # what a budget buys stays a number that can be counted


class ReplicaParams(StrictParams):
    """Its scheduler, the tiers below its HBM, and what of a request its cache keeps."""

    token_budget: int = Field(
        8192,
        ge=64,
        le=65_536,
        description="Tokens of one step: one for every decoding request, the rest prefill chunks.",
        json_schema_extra=form("Scheduler", "tokens"),
    )
    prefill_cap_tokens: int = Field(
        0,
        ge=0,
        le=65_536,
        description="Prefill tokens of a step in which requests decode; 0: as many as fit.",
        json_schema_extra=form("Scheduler", "tokens", "Prefill cap", zero="no limit"),
    )
    compare_caps: bool = Field(
        False,
        description="Play the same sessions with other prefill caps, from 64 tokens to none.",
        json_schema_extra=form("Scheduler", ""),
    )
    max_requests: int = Field(
        64,
        ge=1,
        le=1024,
        description="Requests that a replica holds at once.",
        json_schema_extra=form("Scheduler", "requests"),
    )
    step_overhead_us: int = Field(
        500,
        ge=0,
        le=100_000,
        description="Host time of every step that the GPUs wait for.",
        json_schema_extra=form("Scheduler", "µs"),
    )
    collective_us: int = Field(
        8,
        ge=0,
        le=10_000,
        description="Start-up of one all-reduce, or of handing on from stage to stage.",
        json_schema_extra=form("Scheduler", "µs", "Start-up of a collective"),
    )
    host_gb: int = Field(
        0,
        ge=0,
        le=16_000,
        description="Host memory for KV, of each replica. What HBM pushes out is written back to it.",
        json_schema_extra=form("Tiers", "GB", "Host memory of a replica"),
    )
    host_gb_per_s: float = Field(
        50.0,
        ge=0.1,
        le=1000,
        description="Link of one GPU to it, each way.",
        json_schema_extra=form("Tiers", "GB/s", "Host link of a GPU"),
    )
    memory_offer_gb: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Host memory of all replicas and the pool are at most so much together; 0: they are free.",
        json_schema_extra=form("Tiers", "GB", "Memory on offer", zero="no limit"),
    )
    pool_gb: int = Field(
        0,
        ge=0,
        le=256_000,
        description="KV pool that all replicas share. What a request leaves is stored in it.",
        json_schema_extra=form("Tiers", "GB", "Size of the pool"),
    )
    pool_gb_per_s: float = Field(
        10.0,
        ge=0.1,
        le=1000,
        description="Link of one GPU to it, each way.",
        json_schema_extra=form("Tiers", "GB/s", "Pool link of a GPU"),
    )
    host_usd_per_gb: float = Field(
        4.0,
        ge=CHEAPEST_USD,
        le=1000,
        description="Price of host memory; every replica has its own.",
        json_schema_extra=form("Tiers", "USD/GB", "Price of host memory"),
    )
    pool_usd_per_gb: float = Field(
        4.0,
        ge=CHEAPEST_USD,
        le=1000,
        description="Price of the pool.",
        json_schema_extra=form("Tiers", "USD/GB", "Price of the pool"),
    )
    memory_budget_usd: float = Field(
        0.0,
        ge=0,
        le=1e7,
        description="What host memory and pool may cost together; 0: no budget.",
        json_schema_extra=form("Tiers", "USD", "Memory budget", zero="no limit"),
    )
    compare_tiers: bool = Field(
        False,
        description="Play the same sessions with the budget spent in halves on host, pool, or neither.",
        json_schema_extra=form("Tiers", ""),
    )
    cache_outputs: bool = Field(
        True,
        description="An answer's KV stays, where the agent's next request goes on from it.",
        json_schema_extra=form("Counting", ""),
    )
    full_hit_recompute: bool = Field(
        True,
        description="A prompt's last token is computed always, so that a hit ends before it.",
        json_schema_extra=form("Counting", ""),
    )
    partial_blocks: bool = Field(
        False,
        description="A partly filled last block that has an id is kept, and can hit unless full_hit_recompute ends "
        "the hit before it.",
        json_schema_extra=form("Counting", ""),
    )
    clip_oversize: bool = Field(
        False,
        description="A request larger than the cache keeps its head there and is served; off: it is refused.",
        json_schema_extra=form("Counting", ""),
    )
