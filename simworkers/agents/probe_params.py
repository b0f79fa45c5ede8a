"""Probes of pipeline against tensor parallelism: what may be set, in what two may differ. Pydantic alone."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

MayDiffer = Literal["anything", "link", "prompts", "output_percent", "sessions_at_once"]


class PipelineProbe(BaseModel):
    """One configuration, played with tensor and with pipeline parallelism on the run's GPUs."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    link: Literal["nvlink", "network"] = Field(description="What connects the GPUs.")
    prompts: Literal["warm", "fresh"] = Field(
        description="warm: agents' sessions, whose turns find the KV of the turn before. fresh: the same requests, "
        "each a session of its own, so that nothing is found."
    )
    context_percent: int = Field(
        ge=1,
        le=100,
        description="Prompt tokens, of the published size (mean input 142,000).",
        json_schema_extra={"unit": "%"},
    )
    output_percent: int = Field(
        ge=1, le=100, description="Output tokens, of the sessions'.", json_schema_extra={"unit": "%"}
    )
    sessions_at_once: int = Field(
        ge=1,
        le=64,
        description="Sessions that are open at the same time; nobody thinks between two turns.",
        json_schema_extra={"unit": "sessions"},
    )
    token_budget: int = Field(
        ge=256,
        le=32_768,
        description="Tokens of one step of a stage.",
        json_schema_extra={"unit": "tokens"},
    )


class ProbeRule(BaseModel):
    """In what two probes may differ, and what both of them have to have."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    differ: MayDiffer = "anything"
    link: Literal["nvlink", "network"] | None = None
    output_percent: int | None = Field(None, ge=1, le=100)
    sessions_at_once: int | None = Field(None, ge=1, le=64)

    def fault(self, probe: PipelineProbe) -> str | None:
        """What is not as it has to be."""
        for name in ("link", "output_percent", "sessions_at_once"):
            wanted = getattr(self, name)
            if wanted is not None and getattr(probe, name) != wanted:
                return f"{name} has to be {wanted}"
        return None

    def difference(self, wins: PipelineProbe, loses: PipelineProbe) -> str | None:
        """In what they differ and must not."""
        others = [
            name
            for name in PipelineProbe.model_fields
            if name != self.differ and getattr(wins, name) != getattr(loses, name)
        ]
        if self.differ == "anything" or not others:
            return None
        return f"may differ from pp_wins in {self.differ} alone, and differs in {', '.join(others)}"


# As a part of a larger schema each stands in full, so that a form knows an object when it sees one.
Probe = Annotated[PipelineProbe, WithJsonSchema(PipelineProbe.model_json_schema())]
Rule = Annotated[ProbeRule, WithJsonSchema(ProbeRule.model_json_schema())]


def refuse_against_rule(rule: ProbeRule | None, probe: PipelineProbe | None) -> None:
    """ValueError where a probe is not what the rule wants."""
    if rule is not None and probe is not None and (fault := rule.fault(probe)):
        raise ValueError(fault)


def refuse_difference(
    rule: ProbeRule | None, wins: PipelineProbe | None, loses: PipelineProbe | None
) -> None:
    """ValueError where two probes differ in what they must not."""
    if rule is None or wins is None or loses is None:
        return
    if fault := rule.difference(wins, loses):
        raise ValueError(fault)


class ProbesArtefact(BaseModel):
    """Two probes. Validated with {"params": parameters of the instance}, whose rule they have to keep."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pp_wins: Probe = Field(
        description="A configuration in which the pipeline gives more output tokens per GPU-second."
    )
    pp_loses: Probe = Field(description="A configuration in which it gives fewer.")

    @field_validator("pp_wins", "pp_loses")
    @classmethod
    def _is_as_the_instance_wants(cls, probe: PipelineProbe, info: ValidationInfo) -> PipelineProbe:
        rule = _rule_of(info)
        refuse_against_rule(rule, probe)
        refuse_difference(rule, info.data.get("pp_wins"), probe)
        return probe


def _rule_of(info: ValidationInfo) -> ProbeRule | None:
    values = ((info.context or {}).get("params") or {}).get("probes_rule")
    return ProbeRule.model_validate(values) if values else None
