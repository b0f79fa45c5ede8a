"""The JSON parser of the API: what JSON cannot say, or a database cannot store, is refused with a pointer."""

import json
import math
from collections.abc import Iterator
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer

from quiz.errors import InvalidInput, pointer_part
from simworkers.strict_json import without_repeats

MAX_DEPTH = 64
UTF_8 = {"utf-8", "utf8"}


class PointingJSONParser(JSONParser):
    """Reads JSON, which is UTF-8; NaN, infinities (also `1e999`), NUL and lone surrogates are named by their place.

    No other charset is looked up: Python's codecs under such names unpack archives and raise what they like.
    """

    renderer_class = JSONRenderer

    def parse(self, stream: IO[Any], media_type: Any = None, parser_context: Any = None) -> Any:
        charset = str((parser_context or {}).get("encoding") or "utf-8")
        if charset.lower() not in UTF_8:
            raise ParseError(f"JSON is read as UTF-8 here, not as {charset[:40]}.")
        try:
            value = json.loads(stream.read().decode("utf-8"), object_pairs_hook=without_repeats)
        except (ValueError, RecursionError) as exc:
            raise ParseError(f"The body is not valid JSON: {exc}") from exc
        errors = list(faults(value))
        if errors:
            raise InvalidInput(errors)
        return value


def faults(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(pointer, sentence) for every value that must not enter."""
    if depth > MAX_DEPTH:
        yield path, f"is nested more than {MAX_DEPTH} levels deep"
    elif isinstance(value, dict):
        for key, item in value.items():
            if unstorable(key):
                yield path, "has a key with characters that cannot be stored"
            else:
                yield from faults(item, f"{path}/{pointer_part(key)}", depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from faults(item, f"{path}/{index}", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "must be a finite number"
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        yield path, "must fit into 64 bits"
    elif isinstance(value, str) and unstorable(value):
        yield path, "has characters that cannot be stored (NUL or a lone surrogate)"


def unstorable(text: str) -> bool:
    return "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text)
