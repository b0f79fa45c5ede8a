"""JSON from outside: read without guessing, and checked by a model with JSON's own types.

Pydantic's usual mode takes `true` and "5" for the integers 1 and 5, which a published JSON Schema does not allow.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[str | int, ...]


def parse(text: str) -> Any:
    """ValueError also for what JSON knows no value for (NaN, infinities) and for a key that is there twice."""
    return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=without_repeats)


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """ValueError where an object has a key twice: nobody can say which of the two was meant."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:40]!a} appears twice")
        found[key] = value
    return found


def check(model: type[Model], values: Any, *, context: Mapping[str, Any] | None = None) -> Model:
    """The model, from values that JSON can say. An integer may stand for a float; nothing else is converted.

    Raises pydantic's ValidationError. The text in between gives tuples and enumerations their JSON form.
    """
    _refuse(model, "has half a character, a lone surrogate", _lone_surrogates(values))
    parsed = model.model_validate_json(json.dumps(values), strict=True, context=dict(context or {}))
    # To Python, and so to a Literal of integers, true is 1.
    _refuse(model, "Input should be a number, not true or false", _lost_booleans(values, parsed.model_dump()))
    return parsed


def _refuse(model: type[BaseModel], sentence: str, places: Iterator[Place]) -> None:
    error = PydanticCustomError("json_value", "{sentence}", {"sentence": sentence})
    lines = [InitErrorDetails(type=error, loc=place, input=None) for place in places]
    if lines:
        raise ValidationError.from_exception_data(model.__name__, lines)


def _lone_surrogates(value: Any, place: Place = ()) -> Iterator[Place]:
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _lone_surrogates(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _lone_surrogates(item, (*place, index))


def _lost_booleans(given: Any, kept: Any, place: Place = ()) -> Iterator[Place]:
    """Where true or false was given, and something else was kept."""
    if isinstance(given, bool):
        if not isinstance(kept, bool):
            yield place
    elif isinstance(given, dict) and isinstance(kept, dict):
        for key, item in given.items():
            yield from _lost_booleans(item, kept.get(key), (*place, key))
    elif isinstance(given, list) and isinstance(kept, (list, tuple)):
        for index, (item, other) in enumerate(zip(given, kept, strict=False)):
            yield from _lost_booleans(item, other, (*place, index))
