"""Which text is routed, in what mix and in what steps. Pydantic alone."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from simworkers.fields import Params, form
from simworkers.moe.own_text import MAX_OWN_TEXT_BYTES, refuse_what_is_no_text

Domain = Literal["chat", "code", "mathematics", "german", "spanish", "french"]
DOMAINS: tuple[Domain, ...] = ("chat", "code", "mathematics", "german", "spanish", "french")
OWN_TEXT = "own_text"
LARGEST_STEP = 65_536  # tokens


class TrafficParams(Params):
    """A base mix of domains, moved toward one of them."""

    chat_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of chat in the base mix.",
        json_schema_extra=form("Traffic", "parts"),
    )
    code_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of source code in the base mix.",
        json_schema_extra=form("Traffic", "parts"),
    )
    mathematics_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of mathematics in the base mix.",
        json_schema_extra=form("Traffic", "parts"),
    )
    german_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of German in the base mix.",
        json_schema_extra=form("Traffic", "parts"),
    )
    spanish_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of Spanish in the base mix.",
        json_schema_extra=form("Traffic", "parts"),
    )
    french_weight: int = Field(
        10,
        ge=0,
        le=100,
        description="Weight of French in the base mix.",
        json_schema_extra=form("Traffic", "parts"),
    )
    own_text_weight: int = Field(
        0,
        ge=0,
        le=100,
        description="Weight of your own text in the base mix; 0 leaves it out.",
        json_schema_extra=form("Traffic", "parts"),
    )
    own_text: str = Field(
        "",
        max_length=MAX_OWN_TEXT_BYTES,
        description="Text of yours as traffic: UTF-8, at most 256 KiB. It is cut into tokens like the other domains "
        "and starts again at its end.",
        json_schema_extra=form("Traffic", "")
        | {"format": "textarea", "contentMediaType": "text/plain", "maxBytes": MAX_OWN_TEXT_BYTES},
    )
    skew_domain: Domain = Field(
        "code",
        description="The domain that the skew moves the mix toward.",
        json_schema_extra=form("Traffic", ""),
    )
    skew_percent: int = Field(
        60,
        ge=0,
        le=100,
        description="How far the mix is moved from the base mix (0) to the skew domain alone (100).",
        json_schema_extra=form("Traffic", "%"),
    )
    tokens_per_step: int = Field(
        8192,
        ge=64,
        le=LARGEST_STEP,
        description="Tokens of the whole group in one engine step: thousands in prefill, hundreds in decode.",
        json_schema_extra=form("Traffic", "tokens"),
    )
    chunk_tokens: int = Field(
        128,
        ge=1,
        le=4096,
        description="Tokens in a row that one request brings to a step: a prefill chunk, or 1 in decode.",
        json_schema_extra=form("Traffic", "tokens"),
    )

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
