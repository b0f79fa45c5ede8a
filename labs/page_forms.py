"""Forms from JSON Schemas: what a page shows for each property, and what a plain form post means."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Words that a name spells in lower case and a reader does not.
SPELLINGS = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "eplb": "EPLB",
    "hbm": "HBM",
    "kv": "KV",
    "flops": "FLOPs",
    "moe": "MoE",
    "num": "number of",
    "german": "German",
    "spanish": "Spanish",
    "french": "French",
}
# A unit at the end of a name is shown as the unit.
UNIT_SUFFIX = re.compile(r"_(gb|us|ms|percent)(?=_|$)")
# A statistic at the end of a metric's name; in max_over_mean the mean is a part of the quantity.
STATISTIC_SUFFIX = re.compile(r"(?<!over)_(mean|max|sum)$")


def label(name: str) -> str:
    """A name as words: redundant_slots_per_gpu → Redundant slots per GPU."""
    words = STATISTIC_SUFFIX.sub(r",_\1", UNIT_SUFFIX.sub("", name)).split("_")
    text = " ".join(SPELLINGS.get(word.strip(","), word) for word in words).replace(" ,", ",")
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Choice:
    value: str
    text: str
    selected: bool


@dataclass(frozen=True)
class Field:
    """One input. `pointer` is the place of its value in a request's body, by which errors find it."""

    name: str
    pointer: str
    label: str
    unit: str
    help: str
    control: str  # "choice", "switch", "number" or "text"
    type: str  # JSON type of the value: "integer", "number", "boolean" or "string"
    minimum: Any = None
    maximum: Any = None
    choices: tuple[Choice, ...] = ()
    value: str = ""
    checked: bool = False
    required: bool = False
    error: str = ""

    @property
    def id(self) -> str:
        return self.pointer.strip("/").replace("/", "-")

    @property
    def bounds(self) -> str:
        """The allowed range as text, for the help line."""
        if self.control != "number" or self.minimum is None or self.maximum is None:
            return ""
        return f"{number_text(self.minimum)} to {number_text(self.maximum)}"

    @property
    def described_by(self) -> str:
        return f"{self.id}-help {self.id}-error"


@dataclass(frozen=True)
class Group:
    title: str
    fields: tuple[Field, ...]


def number_text(value: float) -> str:
    """A bound: 2147483647 → 2,147,483,647; 1.0 → 1."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:g}"


def build(
    schema: Mapping[str, Any],
    *,
    at: str,
    values: Mapping[str, Any],
    errors: Mapping[str, str] | None = None,
) -> list[Group]:
    """The schema's properties as fields, under their `group` in order of first appearance.

    at: pointer of the object in the request's body, such as "/params". values win over the schema's defaults.
    errors: pointer → sentence.
    """
    groups: dict[str, list[Field]] = {}
    required = schema.get("required", ())
    for name, part in schema["properties"].items():
        value = values.get(name, part.get("default"))
        field = build_field(
            name, part, f"{at}/{name}", value, name in required, (errors or {}).get(f"{at}/{name}", "")
        )
        groups.setdefault(part.get("group", ""), []).append(field)
    return [Group(title, tuple(fields)) for title, fields in groups.items()]


def build_field(
    name: str, part: Mapping[str, Any], pointer: str, value: Any, required: bool, error: str
) -> Field:
    common: dict[str, Any] = {
        "name": name,
        "pointer": pointer,
        "label": label(name),
        "unit": part.get("unit", ""),
        "help": part.get("description", ""),
        "required": required,
        "error": error,
    }
    kind = part.get("type", "string")
    if "enum" in part:
        choices = tuple(Choice(str(one), str(one), str(one) == str(value)) for one in part["enum"])
        return Field(**common, control="choice", type=kind, choices=choices, value=text_of(value))
    if kind == "boolean":
        return Field(**common, control="switch", type=kind, checked=value in (True, "on", "true"))
    if kind in ("integer", "number"):
        return Field(
            **common,
            control="number",
            type=kind,
            minimum=part.get("minimum"),
            maximum=part.get("maximum"),
            value=text_of(value),
        )
    return Field(**common, control="text", type=kind, value=text_of(value))


def text_of(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


WHOLE = re.compile(r"[+-]?\d{1,30}")


def parse(schema: Mapping[str, Any], *, at: str, data: Mapping[str, str]) -> dict[str, Any]:
    """The posted texts as JSON values. What is no number stays text, so that the model refuses it by name.

    An unticked switch is false; an empty required field is left out.
    """
    values: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        text = data.get(f"{at}/{name}")
        kind = part.get("type", "string")
        if kind == "boolean":
            values[name] = text is not None
        elif text is not None and not (text.strip() == "" and name in schema.get("required", ())):
            values[name] = number_of(text.strip(), kind)
    return values


def number_of(text: str, kind: str) -> Any:
    if kind == "integer" and WHOLE.fullmatch(text):
        return int(text)
    if kind == "number":
        try:
            return float(text)
        except ValueError:
            return text
    return text
