"""Values as JSON has them that no database may be asked to store, or nobody can read again."""

import math
from collections.abc import Iterator
from typing import Any

from quiz.errors import pointer_part

MAX_DEPTH = 64


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
