"""The JSON parser of the API: what JSON cannot say, or a database cannot store, is refused with a pointer."""

import json
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer

from quiz.errors import InvalidInput
from quiz.storable import faults
from simworkers.strict_json import without_repeats

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
