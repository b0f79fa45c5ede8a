"""Which sessions are played, and how many at once. Pydantic alone."""

from pydantic import Field, field_validator

from simworkers.fields import StrictParams, form
from simworkers.inputs import WORD_DEFAULT, is_digest

SYNTHETIC = "synthetic"


class SessionParams(StrictParams):
    """Drawn or recorded, and when each begins and thinks."""

    trace: str = Field(
        SYNTHETIC,
        max_length=64,
        description="The sessions: synthetic (drawn from the seed by published figures), or a recorded trace. Of rows "
        "without sessions each is a session of one request that comes at its recorded time.",
        json_schema_extra=form("Sessions", "") | {"format": "trace"},
    )
    sessions: int = Field(
        16,
        ge=1,
        le=256,
        description="So many are drawn, or the first of a recorded trace. Ignored where its rows have no sessions: all "
        "are played.",
        json_schema_extra=form("Sessions", "sessions"),
    )
    turns_percent: int = Field(
        50,
        ge=1,
        le=200,
        description="Synthetic only: turns of every session, of the published number (median 43).",
        json_schema_extra=form("Sessions", "%"),
    )
    context_percent: int = Field(
        100,
        ge=1,
        le=100,
        description="Synthetic only: tokens of everything, of the published size (mean input 142,000).",
        json_schema_extra=form("Sessions", "%"),
    )
    shared_prefix_tokens: int = Field(
        0,
        ge=0,
        le=50_000,
        description="Synthetic only: system prompt that all sessions begin with, before scaling. 0: each has its own.",
        json_schema_extra=form("Sessions", "tokens"),
    )
    sessions_at_once: int = Field(
        16,
        ge=1,
        le=256,
        description="Sessions that are open at the same time; when one ends the next begins. Ignored where a trace's "
        "rows have no sessions.",
        json_schema_extra=form("Sessions", "sessions"),
    )
    start_gap_ms: int = Field(
        1000,
        ge=0,
        le=600_000,
        description="Between the first sessions' starts.",
        json_schema_extra=form("Sessions", "ms"),
    )
    think_percent: int = Field(
        100,
        ge=0,
        le=1000,
        description="Time between an answer and the next request, of the trace's.",
        json_schema_extra=form("Sessions", "%", "Think time"),
    )
    think_at_most_s: int = Field(
        30,
        ge=0,
        le=86_400,
        description="No think time is longer; 0: as recorded, pauses of hours included.",
        json_schema_extra=form("Sessions", "s", "Longest think time", zero="no limit"),
    )

    @field_validator("trace")
    @classmethod
    def _trace_is_named(cls, trace: str) -> str:
        if trace not in (SYNTHETIC, WORD_DEFAULT) and not is_digest(trace):
            raise ValueError("must be synthetic, default, or a trace's SHA-256 as 64 lower-case hex digits")
        return trace
