"""The knobs of the agent lab. Pydantic alone, so that a web process can read schemas without numpy."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from simworkers.agents.cluster_params import ClusterParams
from simworkers.agents.probe_params import (
    PipelineProbe,
    Probe,
    Rule,
    refuse_against_rule,
    refuse_difference,
)
from simworkers.agents.replica_params import CHEAPEST_USD, ReplicaParams
from simworkers.agents.router_params import RouterParams
from simworkers.agents.session_params import SYNTHETIC, SessionParams
from simworkers.agents.work import MAX_WORK_S, WORK_FIELDS, expected_s, less_work
from simworkers.fields import form


# Pydantic puts the fields of the last base first: a form begins with the sessions.
class AgentParams(ReplicaParams, RouterParams, ClusterParams, SessionParams):
    """One frozen object; unknown keys, NaN and infinities are refused.

    Checks across fields stand on the later of the fields that they compare, so that an error points at one.
    """

    incident: Literal["none", "fail", "drain"] = Field(
        "none",
        description="What happens to replica 0: it dies with its KV, or takes nothing new.",
        json_schema_extra=form("Incident", ""),
    )
    incident_at_s: int = Field(
        120,
        ge=0,
        le=1_000_000,
        description="When.",
        json_schema_extra=form("Incident", "s", "Incident begins at"),
    )
    incident_for_s: int = Field(
        300,
        ge=0,
        le=1_000_000,
        description="How long; 0: to the end.",
        json_schema_extra=form("Incident", "s", "Incident lasts", zero="to the end"),
    )
    horizon_s: int = Field(
        86_400,
        ge=1,
        le=10_000_000,
        description="End of the simulation; a request that has not ended by then counts as unfinished.",
        json_schema_extra=form("Goal", "s"),
    )
    floor_tokens_per_s: float = Field(
        20.0,
        ge=0.1,
        le=1000,
        description="Interactivity that nine of ten requests must reach.",
        json_schema_extra=form("Goal", "tokens/s", "Interactivity floor"),
    )
    search_load: bool = Field(
        False,
        description="Search the most sessions at once that keep the floor.",
        json_schema_extra=form("Goal", ""),
    )
    scored_as: Literal["none", "throughput", "survival", "routing"] = Field(
        "none",
        description="Also play what a task of this kind is scored between.",
        json_schema_extra=form("Goal", ""),
    )
    compare_policies: bool = Field(
        True,
        description="Play the same sessions under other policies and loads, for the figures.",
        json_schema_extra=form("Goal", ""),
    )
    gpu_hour_usd: float = Field(
        2.5,
        ge=CHEAPEST_USD,
        le=1000,
        description="Price of a GPU for an hour.",
        json_schema_extra=form("Goal", "USD", "Price of a GPU-hour"),
    )
    watched_session: int = Field(
        1,
        ge=1,
        le=256,
        description="Whose turn is looked at closely.",
        json_schema_extra=form("Watched", "session"),
    )
    watched_turn: int = Field(
        10,
        ge=1,
        le=2000,
        description="Which turn of its own; the last one where there are fewer.",
        json_schema_extra=form("Watched", "turn"),
    )
    probes_rule: Rule | None = Field(
        None,
        description="In what the two probes below may differ, and what both have to have.",
        json_schema_extra=form("Probes", ""),
    )
    pp_wins: Probe | None = Field(
        None,
        description="A configuration to play with tensor_parallel × pipeline_parallel GPUs as tensor parallelism, and "
        "with as many as a pipeline.",
        json_schema_extra=form("Probes", ""),
    )
    pp_loses: Probe | None = Field(None, description="Another one.", json_schema_extra=form("Probes", ""))

    @field_validator("pool_gb")
    @classmethod
    def _memory_is_offered(cls, pool_gb: int, info: ValidationInfo) -> int:
        offer, replicas, host_gb = (
            info.data.get(name) for name in ("memory_offer_gb", "replicas", "host_gb")
        )
        if offer and replicas and host_gb is not None and replicas * host_gb + pool_gb > offer:
            raise ValueError(
                f"{replicas} × {host_gb} GB of host memory and {pool_gb} GB are {replicas * host_gb + pool_gb}, "
                f"at most {offer} are offered"
            )
        return pool_gb

    @field_validator("watched_session")
    @classmethod
    def _session_is_there(cls, session: int, info: ValidationInfo) -> int:
        sessions = info.data.get("sessions")
        if sessions is not None and session > sessions:
            raise ValueError(f"there {'is' if sessions == 1 else 'are'} only {sessions}")
        return session

    @field_validator("pp_wins", "pp_loses")
    @classmethod
    def _probes_keep_the_rule(cls, probe: PipelineProbe | None, info: ValidationInfo) -> PipelineProbe | None:
        rule = info.data.get("probes_rule")
        refuse_against_rule(rule, probe)
        refuse_difference(rule, info.data.get("pp_wins"), probe)
        return probe

    @field_validator("compare_policies")
    @classmethod
    def _work_is_bounded(cls, compare: bool, info: ValidationInfo) -> bool:
        """Of drawn sessions. What a recorded trace takes shows once it is read (scene.py)."""
        values = info.data | {"compare_policies": compare}
        if values.get("trace") == SYNTHETIC and all(name in values for name in WORK_FIELDS):
            work = expected_s(values)
            if work > MAX_WORK_S:
                raise ValueError(
                    f"this run would take about {work:.0f} s of one core, at most {MAX_WORK_S}: use {less_work(values)}"
                )
        return compare

    def expected_seconds(self) -> float:
        """Of a run on one core, roughly."""
        return expected_s(self.model_dump())
