"""Forms from JSON Schemas: what a page shows for each property, and what a plain form post means."""

import base64
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.core.files.uploadedfile import UploadedFile

from labs.labels import label
from simworkers import strict_json


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
    # "choice", "trace" (a choice), "switch", "number", "text", "long" (lines or their file), "picture" (a file), "json"
    control: str
    type: str  # JSON type of the value: "integer", "number", "boolean", "string", "array" or "object"
    minimum: Any = None
    maximum: Any = None
    above: Any = None  # the value is larger than this, and smaller than `below`
    below: Any = None
    limit_bytes: int | None = None  # of a long text as UTF-8, of a picture's file
    choices: tuple[Choice, ...] = ()
    value: str = ""
    checked: bool = False
    required: bool = False
    error: str = ""
    is_changed: bool = False  # other than by default

    @property
    def id(self) -> str:
        return self.pointer.strip("/").replace("/", "-")

    @property
    def bounds(self) -> str:
        """The allowed range as a sentence, for the help line: From 1 to 8. Above 0, at most 100."""
        if self.minimum is not None and self.maximum is not None:
            return f"From {number_text(self.minimum)} to {number_text(self.maximum)}."
        ends = {"above": self.above, "at least": self.minimum, "below": self.below, "at most": self.maximum}
        told = ", ".join(f"{words} {number_text(end)}" for words, end in ends.items() if end is not None)
        return f"{told[:1].upper()}{told[1:]}." if told else ""

    @property
    def described_by(self) -> str:
        return f"{self.id}-help {self.id}-error"

    @property
    def is_unanswered(self) -> bool:
        """A choice that has to be made and has not been: the first one must not be taken by default."""
        return self.required and not any(choice.selected for choice in self.choices)

    @property
    def takes_file(self) -> bool:
        """Without script the file itself is posted, so its form has to be multipart."""
        return self.control in ("long", "picture")

    @property
    def file_name(self) -> str:
        """Of the input that takes a file."""
        return file_name(self.pointer)


@dataclass(frozen=True)
class Group:
    title: str
    fields: tuple[Field, ...]
    folds: bool = False

    @property
    def is_open(self) -> bool:
        """Nothing that was changed or refused is out of sight."""
        return any(field.is_changed or field.error for field in self.fields)


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
    errors: pointer → sentence; one below a field's pointer is shown at the field, its place named.
    """
    groups: dict[str, list[Field]] = {}
    required = schema.get("required", ())
    for name, part in schema["properties"].items():
        value = values.get(name, part.get("default"))
        field = build_field(name, part, f"{at}/{name}", value)
        error = error_at(field.pointer, errors or {})
        is_changed = name in values and value != part.get("default")
        field = replace(field, required=name in required, error=error, is_changed=is_changed)
        groups.setdefault(part.get("group", ""), []).append(field)
    return [Group(title, tuple(fields)) for title, fields in groups.items()]


def fold(groups: Iterable[Group], *, essentials: Collection[str], internals: Collection[str]) -> list[Group]:
    """For a long form: the essential fields at once, the others in groups that fold, what tasks set in the last one.

    essentials, internals: names of fields. Without essential ones nothing folds.
    """
    groups = list(groups)
    if not essentials:
        return groups
    fields = fields_of(groups)
    rest = [
        Group(
            group.title, tuple(one for one in group.fields if one.name not in {*essentials, *internals}), True
        )
        for group in groups
    ]
    first = Group("Essentials", tuple(field for field in fields if field.name in essentials))
    last = Group("Set by tasks", tuple(field for field in fields if field.name in internals), True)
    return [first, *(group for group in [*rest, last] if group.fields)]


def fields_of(groups: Iterable[Group]) -> list[Field]:
    return [field for group in groups for field in group.fields]


def build_field(name: str, part: Mapping[str, Any], pointer: str, value: Any) -> Field:
    kind = json_type(part)
    field = Field(
        name=name,
        pointer=pointer,
        label=label(name, part),
        unit=part.get("unit", ""),
        help=part.get("description", ""),
        control="text",
        type=kind,
        value=text_of(value),
    )
    if "enum" in part:
        texts = part.get("enumNames", part["enum"])
        choices = tuple(
            Choice(str(one), str(text), str(one) == str(value))
            for one, text in zip(part["enum"], texts, strict=True)
        )
        return replace(field, control="trace" if is_trace(part) else "choice", choices=choices)
    if kind == "boolean":
        return replace(field, control="switch", checked=value in (True, "on", "true"))
    if kind in ("integer", "number"):
        limits = {**number_option(part), **part}
        return replace(
            field,
            control="number",
            minimum=limits.get("minimum"),
            maximum=limits.get("maximum"),
            above=limits.get("exclusiveMinimum"),
            below=limits.get("exclusiveMaximum"),
        )
    if kind in ("array", "object"):
        return replace(field, control="json", value=value if isinstance(value, str) else json_text(value))
    if takes_file(part):
        control = "picture" if is_picture(part) else "long"
        return replace(field, control=control, limit_bytes=part.get("maxBytes"))
    return field


def json_type(part: Mapping[str, Any]) -> str:
    """The JSON type; of a value that may also be null, the other one."""
    options = [one["type"] for one in part.get("anyOf", ()) if one.get("type") not in (None, "null")]
    return str(part.get("type") or (options[0] if options else "string"))


def number_option(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a value that may also be null, what is said of the number."""
    return next((one for one in part.get("anyOf", ()) if one.get("type") in ("integer", "number")), {})


def is_long_text(part: Mapping[str, Any]) -> bool:
    return part.get("format") == "textarea"


def is_picture(part: Mapping[str, Any]) -> bool:
    return part.get("format") == "image"


def is_trace(part: Mapping[str, Any]) -> bool:
    return part.get("format") == "trace"


def takes_file(part: Mapping[str, Any]) -> bool:
    return is_long_text(part) or is_picture(part)


def error_at(pointer: str, errors: Mapping[str, str]) -> str:
    """What was refused about the field: of [0][3], the value at that place inside it, and so on."""
    found = []
    for place, text in errors.items():
        if place == pointer:
            found.append(text)
        elif place.startswith(f"{pointer}/"):
            inside = "".join(f"[{step}]" for step in place.removeprefix(f"{pointer}/").split("/"))
            found.append(f"{inside}: {text}")
    return "; ".join(found)


def text_of(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def json_text(value: Any) -> str:
    """JSON with one row of a matrix a line."""
    if value is None:
        return ""
    if isinstance(value, list) and value and all(isinstance(row, list) for row in value):
        return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n]"
    return json.dumps(value)


WHOLE = re.compile(r"[+-]?[0-9]{1,30}")
MAX_DEPTH = 64


def parse(schema: Mapping[str, Any], *, at: str, data: Mapping[str, str]) -> dict[str, Any]:
    """The posted texts as JSON values. What is no number stays text, so that the model refuses it by name.

    An unticked switch is false; an empty required field, and empty JSON, is left out.
    """
    values: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        text = data.get(f"{at}/{name}")
        kind = json_type(part)
        if kind == "boolean":
            values[name] = text is not None
        elif text is not None and not (
            text.strip() == "" and (name in schema.get("required", ()) or kind in ("array", "object"))
        ):
            values[name] = (
                without_carriage_returns(text) if is_long_text(part) else value_of(text.strip(), kind)
            )
    return values


def without_carriage_returns(text: str) -> str:
    """A form sends every line's end as CR LF, whatever the text had."""
    return text.replace("\r\n", "\n")


def value_of(text: str, kind: str) -> Any:
    if kind == "integer" and WHOLE.fullmatch(text):
        return int(text)
    try:
        if kind == "number":
            return float(text)
        if kind in ("array", "object"):
            value = strict_json.parse(text)
            return text if is_deep(value) else value
    except (ValueError, RecursionError):
        return text
    return text


def is_deep(value: Any) -> bool:
    """Nested more than MAX_DEPTH levels: no parameter is, and whoever walks it would need as deep a stack."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [item for one in inner if isinstance(one, list) for item in one]
    return bool(level)


def file_name(pointer: str) -> str:
    return f"{pointer}:file"


def read_files(
    schema: Mapping[str, Any], *, at: str, files: Mapping[str, UploadedFile]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """(name → text of the file chosen for it, faults by pointer). A chosen file wins over what was typed."""
    texts: dict[str, str] = {}
    faults: list[tuple[str, str]] = []
    for name, part in schema["properties"].items():
        pointer = f"{at}/{name}"
        file = files.get(file_name(pointer))
        if file is None or not takes_file(part):
            continue
        try:
            texts[name] = (base64_of if is_picture(part) else text_in)(file, part.get("maxBytes"))
        except ValueError as exc:
            faults.append((pointer, str(exc)))
    return texts, faults


def refuse_if_too_large(file: UploadedFile, limit_bytes: int | None) -> None:
    if limit_bytes is not None and (file.size or 0) > limit_bytes:
        raise ValueError(f"{file.name} has {file.size:,} bytes; at most {limit_bytes:,}")


def base64_of(file: UploadedFile, limit_bytes: int | None) -> str:
    """The file as a parameter holds it. ValueError where it is too large."""
    refuse_if_too_large(file, limit_bytes)
    return base64.b64encode(file.read()).decode()


def text_in(file: UploadedFile, limit_bytes: int | None) -> str:
    """ValueError where it is too large, or no text."""
    refuse_if_too_large(file, limit_bytes)
    try:
        text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file.name} is not text in UTF-8") from None
    if "\0" in text:
        raise ValueError(f"{file.name} holds NUL bytes: it is binary, not text")
    return without_carriage_returns(text)
