"""What a learner commits before a graded run of the multimodal lab. Pydantic alone."""

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from simworkers.multimodal.diagnosis import CAUSE_WORDS, Sign

MOST_TOKENS = 100_000


class SecondTurnPrediction(BaseModel):
    """What turn 2 of user 0 finds, and what it has to work on again."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    preprocess_again: bool = Field(
        description="Whether the first picture is decoded, resized and cut into patches again in turn 2.",
    )
    encode_again: bool = Field(
        description="Whether the first picture goes through the vision encoder again in turn 2.",
    )
    cached_tokens: int = Field(
        ge=0,
        le=MOST_TOKENS,
        description="Leading prompt tokens of turn 2 whose KV is found. Only full blocks can be found.",
        json_schema_extra={"unit": "tokens"},
    )
    new_tokens: int = Field(
        ge=1,
        le=MOST_TOKENS,
        description="Prompt tokens of turn 2 that have to be computed.",
        json_schema_extra={"unit": "tokens"},
    )


CauseNumber = Literal[1, 2, 3, 4, 5, 6, 7, 8, 9]
SignNumber = Literal[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]


def _named(words: dict[int, str]) -> dict[str, Any]:
    """Names of a choice of numbers, in the order of its `enum`, for forms."""
    return {"enumNames": list(words.values())}


def _sentence(words: dict[int, str]) -> str:
    return "; ".join(f"{number}: {name}" for number, name in words.items()) + "."


CAUSES: dict[int, str] = {cause.value: words for cause, words in CAUSE_WORDS.items()}
SIGNS: dict[int, str] = {sign.value: sign.name.lower() for sign in Sign if sign}
assert get_args(CauseNumber) == tuple(CAUSES) and get_args(SignNumber) == tuple(SIGNS)


class DiagnosisPrediction(BaseModel):
    """What is wrong in a chat, since when, and what shows it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    cause: CauseNumber = Field(
        description=f"What is wrong. {_sentence(CAUSES)}", json_schema_extra=_named(CAUSES)
    )
    turn: int = Field(
        ge=1,
        le=8,
        description="The first turn in which it shows, whoever's turn that is.",
        json_schema_extra={"unit": "turn"},
    )
    sign: SignNumber = Field(
        description="The one field of the telemetry that, in this turn, tells this cause from all others. "
        f"{_sentence(SIGNS)}",
        json_schema_extra=_named(SIGNS),
    )


class WarmTurnPrediction(BaseModel):
    """What turn 2 will be like with the settings that are handed in."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    encode_again: bool = Field(
        description="Whether user 0's first picture goes through the vision encoder again in turn 2.",
    )
    ttft_turn2_us: float = Field(
        gt=0,
        le=1e9,
        description="TTFT of turn 2, mean over users, with your settings; upload included.",
        json_schema_extra={"unit": "µs"},
    )


class EncoderCachePrediction(BaseModel):
    """How often the encoder will work with the capacity that is handed in."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    images_encoded: int = Field(
        ge=0,
        le=1000,
        description="Pictures that go through the encoder in the whole run, every time counted.",
        json_schema_extra={"unit": "pictures"},
    )


class EncoderWorkersPrediction(BaseModel):
    """What the cluster will give with the number of encoder workers that is handed in."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    tokens_per_gpu_s: float = Field(
        gt=0,
        le=1e6,
        description="Output tokens per GPU-second of the cluster, all of its GPUs counted.",
        json_schema_extra={"unit": "tokens/s", "label": "Output tokens per GPU-second"},
    )
