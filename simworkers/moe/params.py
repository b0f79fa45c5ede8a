"""The knobs of the MoE lab. Pydantic alone, so that a web process can read schemas without torch."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from simworkers.moe.handed_in import SHAPE_FIELDS, refuse_faults
from simworkers.moe.own_text import MAX_OWN_TEXT_BYTES, refuse_what_is_no_text

Domain = Literal["chat", "code", "mathematics", "german", "spanish", "french"]
DOMAINS: tuple[Domain, ...] = ("chat", "code", "mathematics", "german", "spanish", "french")
OWN_TEXT = "own_text"
MAX_REDUNDANT_SLOTS = 8  # a GPU
LARGEST_STEP = 65_536  # tokens

# What one core computes in well under 120 s (docs/labs/moe-eplb.md has the measurements). Work is counted in µs of
# a common core: one for a token copy, and what a slot costs in every step and in every rebalance.
MAX_ROUTED_COPIES = 48_000_000
MAX_WORK_US = 72_000_000
SLOT_STEP_US = 22
SLOT_REBALANCE_US = 68


def _form(group: str, unit: str) -> dict[str, Any]:
    """What a form shows beside a field: its unit, and the heading it stands under."""
    return {"unit": unit, "group": group}


class MoeParams(BaseModel):
    """One frozen object; unknown keys, NaN and infinities are refused.

    Checks across fields stand on the later of the fields that they compare, so that an error points at one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    model_profile: Literal["deepseek-v3", "mixtral-8x7b", "qwen3-30b-a3b"] = Field(
        "deepseek-v3",
        description="Whose expert shape, layer count and KV size the cost model and the HBM ledger account. "
        "The torch experts that really run are far smaller.",
        json_schema_extra=_form("Hardware", ""),
    )
    gpu_profile: Literal["h100", "h200", "b200"] = Field(
        "h100", description="The GPU that the cost model accounts.", json_schema_extra=_form("Hardware", "")
    )
    weight_precision: Literal["fp8", "bf16"] = Field(
        "fp8",
        description="Precision of the expert weights and their GEMMs in the cost model.",
        json_schema_extra=_form("Hardware", ""),
    )
    num_gpus: Literal[1, 2, 4, 8, 16, 32, 64] = Field(
        4,
        description="GPUs that the experts of every layer are spread over.",
        json_schema_extra=_form("Hardware", "GPUs"),
    )
    num_nodes: Literal[1, 2, 4, 8] = Field(
        1,
        description="Nodes that hold the GPUs; NVLink inside a node, the network between nodes.",
        json_schema_extra=_form("Hardware", "nodes"),
    )
    num_experts: Literal[8, 16, 32, 64, 128, 256] = Field(
        8, description="Routed experts in every layer.", json_schema_extra=_form("Model", "experts")
    )
    top_k: int = Field(
        2,
        ge=1,
        le=8,
        description="Experts that each token is sent to.",
        json_schema_extra=_form("Model", "experts"),
    )
    num_layers: int = Field(
        4,
        ge=1,
        le=61,
        description="MoE layers that are simulated. The HBM ledger accounts all MoE layers of the model "
        "profile.",
        json_schema_extra=_form("Model", "layers"),
    )
    num_groups: Literal[1, 2, 4, 8] = Field(
        4,
        description="Groups of neighbouring experts; hierarchical balancing keeps a group inside one node.",
        json_schema_extra=_form("Model", "groups"),
    )
    checkpoint_seed: int = Field(
        0,
        ge=0,
        le=2**31 - 1,
        description="Which checkpoint: draws the fitted gate and the numbering of the experts of every "
        "layer.",
        json_schema_extra=_form("Model", ""),
    )
    chat_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of chat in the base mix.",
        json_schema_extra=_form("Traffic", "parts"),
    )
    code_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of source code in the base mix.",
        json_schema_extra=_form("Traffic", "parts"),
    )
    mathematics_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of mathematics in the base mix.",
        json_schema_extra=_form("Traffic", "parts"),
    )
    german_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of German in the base mix.",
        json_schema_extra=_form("Traffic", "parts"),
    )
    spanish_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of Spanish in the base mix.",
        json_schema_extra=_form("Traffic", "parts"),
    )
    french_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of French in the base mix.",
        json_schema_extra=_form("Traffic", "parts"),
    )
    own_text_weight: int = Field(
        0,
        ge=0,
        le=100,
        description="Weight of your own text in the base mix; 0 leaves it out.",
        json_schema_extra=_form("Traffic", "parts"),
    )
    own_text: str = Field(
        "",
        max_length=MAX_OWN_TEXT_BYTES,
        description="Text of yours as traffic: UTF-8, at most 256 KiB. It is cut into tokens like the other domains "
        "and starts again at its end.",
        json_schema_extra=_form("Traffic", "")
        | {"format": "textarea", "contentMediaType": "text/plain", "maxBytes": MAX_OWN_TEXT_BYTES},
    )
    skew_domain: Domain = Field(
        "code",
        description="The domain that the skew moves the mix toward.",
        json_schema_extra=_form("Traffic", ""),
    )
    skew_percent: int = Field(
        60,
        ge=0,
        le=100,
        description="How far the mix is moved from the base mix (0) to the skew domain alone (100).",
        json_schema_extra=_form("Traffic", "%"),
    )
    tokens_per_step: int = Field(
        8192,
        ge=64,
        le=LARGEST_STEP,
        description="Tokens of the whole group in one engine step: thousands in prefill, hundreds in decode.",
        json_schema_extra=_form("Traffic", "tokens"),
    )
    chunk_tokens: int = Field(
        128,
        ge=1,
        le=4096,
        description="Tokens in a row that one request brings to a step: a prefill chunk, or 1 in decode.",
        json_schema_extra=_form("Traffic", "tokens"),
    )
    warmup_steps: int = Field(
        4,
        ge=1,
        le=64,
        description="Steps before the measured ones: load is recorded, metrics are not.",
        json_schema_extra=_form("Run", "steps"),
    )
    num_steps: int = Field(
        16, ge=1, le=256, description="Measured steps.", json_schema_extra=_form("Run", "steps")
    )
    eplb: bool = Field(
        False,
        description="Whether the balancer runs. Off: experts stay where contiguous placement puts them, "
        "without copies.",
        json_schema_extra=_form("Balancer", ""),
    )
    eplb_policy: Literal["auto", "hierarchical", "global"] = Field(
        "auto",
        description="Hierarchical keeps every copy of a group inside one node; global does not; "
        "auto is hierarchical where groups divide by more than one node.",
        json_schema_extra=_form("Balancer", ""),
    )
    redundant_slots_per_gpu: int = Field(
        0,
        ge=0,
        le=MAX_REDUNDANT_SLOTS,
        description="Extra slots on each GPU, in every layer, for copies of busy experts. Ignored while "
        "EPLB is off.",
        json_schema_extra=_form("Balancer", "slots"),
    )
    window_steps: int = Field(
        4,
        ge=1,
        le=64,
        description="Latest steps whose recorded load the balancer sums.",
        json_schema_extra=_form("Balancer", "steps"),
    )
    interval_steps: int = Field(
        8,
        ge=1,
        le=256,
        description="Steps between rebalances; the first one comes at the end of the warm-up.",
        json_schema_extra=_form("Balancer", "steps"),
    )
    placement: list[list[int]] | None = Field(
        None,
        description="[layer][slot] → expert, instead of what the balancer would choose: put in place at the end of "
        "the warm-up and kept. Ignored while EPLB is off.",
        json_schema_extra=_form("Balancer", "expert index"),
    )
    hbm_budget_gb: float = Field(
        1000.0,
        ge=0,
        le=100_000,
        description="HBM that extra copies may take: all GPUs, all MoE layers of the model profile.",
        json_schema_extra=_form("Memory", "GB"),
    )
    hbm_reserve_percent: int = Field(
        10,
        ge=0,
        le=50,
        description="Share of each GPU's HBM kept for activations and the runtime.",
        json_schema_extra=_form("Memory", "%"),
    )
    resident_kv_tokens_per_gpu: int = Field(
        200_000,
        ge=0,
        le=10_000_000,
        description="Context tokens whose KV each GPU has to hold to serve all its requests at once.",
        json_schema_extra=_form("Memory", "tokens"),
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

    @field_validator("skew_percent")
    @classmethod
    def _some_domain_has_weight(cls, skew: int, info: ValidationInfo) -> int:
        weights = [info.data.get(f"{domain}_weight") for domain in (*DOMAINS, OWN_TEXT)]
        if skew < 100 and None not in weights and not any(weights):
            raise ValueError("every domain weight is 0, so only skew_percent = 100 leaves any traffic")
        return skew

    @field_validator("own_text")
    @classmethod
    def _own_text_is_text(cls, text: str, info: ValidationInfo) -> str:
        weight = info.data.get("own_text_weight")
        if weight and not text.strip():
            raise ValueError(f"own_text_weight is {weight}, but there is no text")
        refuse_what_is_no_text(text)
        return text

    @field_validator("num_steps")
    @classmethod
    def _run_is_bounded(cls, steps: int, info: ValidationInfo) -> int:
        names = ("tokens_per_step", "top_k", "num_layers", "warmup_steps")
        values = [info.data.get(name) for name in names]
        if None in values:
            return steps
        tokens, top_k, layers, warmup = (int(value) for value in values if value is not None)
        routed = tokens * top_k * layers * (warmup + steps)
        if routed > MAX_ROUTED_COPIES:
            raise ValueError(
                f"tokens_per_step × top_k × num_layers × (warmup_steps + num_steps) = {routed:,} routed "
                f"token copies; "
                f"at most {MAX_ROUTED_COPIES:,}"
            )
        return steps

    @field_validator("interval_steps")
    @classmethod
    def _work_is_bounded(cls, interval: int, info: ValidationInfo) -> int:
        known = info.data
        names = (
            "tokens_per_step",
            "top_k",
            "num_layers",
            "warmup_steps",
            "num_steps",
            "num_experts",
            "num_gpus",
        )
        if any(name not in known for name in (*names, "eplb", "redundant_slots_per_gpu")):
            return interval
        copies = known["tokens_per_step"] * known["top_k"]
        slots = known["num_experts"] + known["redundant_slots_per_gpu"] * known["num_gpus"] * known["eplb"]
        steps = known["warmup_steps"] + known["num_steps"]
        rebalances = -(-known["num_steps"] // interval) * known["eplb"]
        in_steps = steps * (copies + SLOT_STEP_US * min(slots, copies))
        work = known["num_layers"] * (in_steps + SLOT_REBALANCE_US * rebalances * slots)
        if work > MAX_WORK_US:
            raise ValueError(
                f"this run would take about {work // 1_000_000:,} s of one core, at most {MAX_WORK_US // 1_000_000}: "
                "use fewer num_layers, num_steps or slots, or a longer interval_steps"
            )
        return interval

    @field_validator("eplb_policy")
    @classmethod
    def _groups_fill_nodes(cls, policy: str, info: ValidationInfo) -> str:
        groups, nodes = info.data.get("num_groups"), info.data.get("num_nodes")
        if policy == "hierarchical" and groups is not None and nodes is not None and groups % nodes:
            raise ValueError(
                f"hierarchical needs num_groups = {groups} to divide evenly by num_nodes = {nodes}"
            )
        return policy

    @field_validator("placement")
    @classmethod
    def _placement_fits(
        cls, placement: list[list[int]] | None, info: ValidationInfo
    ) -> list[list[int]] | None:
        if placement is not None and all(name in info.data for name in SHAPE_FIELDS):
            refuse_faults(placement, info.data)
        return placement

    @property
    def extra_slots_per_gpu(self) -> int:
        """The redundant slots that there are: none while EPLB is off."""
        return self.redundant_slots_per_gpu if self.eplb else 0

    def expected_seconds(self) -> float:
        """Of a run on one core, roughly: a second, and one for every 800,000 routed token copies."""
        steps = self.warmup_steps + self.num_steps
        return 1 + self.tokens_per_step * self.top_k * self.num_layers * steps / 800_000

    def mix(self) -> tuple[int, ...]:
        """Integer weights of `domains()` after the skew; exact, so that draws from them are."""
        domains = self.domains()
        base = [getattr(self, f"{domain}_weight") for domain in domains]
        total = sum(base) or 1
        skew = self.skew_percent
        return tuple(
            weight * (100 - skew) + skew * total * (domain == self.skew_domain)
            for domain, weight in zip(domains, base, strict=True)
        )

    def domains(self) -> tuple[str, ...]:
        """The corpora, and "own_text" after them where it has weight."""
        return (*DOMAINS, OWN_TEXT) if self.own_text_weight else DOMAINS
