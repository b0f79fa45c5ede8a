"""How the labs declare fields that people see: knobs in a form, numbers in a report. Pydantic alone."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def form(group: str, unit: str, label: str = "", *, zero: str = "") -> dict[str, Any]:
    """What a form shows beside a knob: its unit ("" for none), and the heading it stands under.

    label: what it is called, where its name as words would say too little.
    zero: what 0 means, where it is no amount: "no limit".
    """
    told = {"label": label, "zero": zero}
    return {"unit": unit, "group": group} | {name: words for name, words in told.items() if words}


def metric(
    unit: str,
    description: str,
    *,
    label: str = "",
    zero: str = "",
    unit_by: tuple[str, Mapping[str, str]] | None = None,
    part: str = "",
    otherwise: float = 0,
) -> Any:
    """A required field of a report, with its unit ("" for none) in the public schema.

    label: what it is called, where its name as words would say too little.
    zero: what 0 means, where it is no amount: "none".
    unit_by: (parameter, its value → unit), where the unit hangs on what the run was asked for.
    part: what a run need not compute. Where it did not, all fields of the part hold what they are `otherwise`, and
    tell nothing: a page sets them aside.
    """
    told = {"label": label, "zero": zero}
    extra: dict[str, Any] = {"unit": unit} | {name: words for name, words in told.items() if words}
    if unit_by:
        extra |= {"unitBy": {"parameter": unit_by[0], "units": dict(unit_by[1])}}
    if part:
        extra |= {"part": part, "otherwise": otherwise}
    return Field(description=description, json_schema_extra=extra)


class Params(BaseModel):
    """What people set: frozen; unknown keys, NaN and infinities are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


class StrictParams(Params):
    """The same, and text is refused where a number belongs."""

    model_config = ConfigDict(strict=True)


class Row(BaseModel):
    """What a report is made of: frozen; unknown keys, NaN and infinities are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
