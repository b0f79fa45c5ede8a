"""Fields of a trace's rows: what they must be, and what is said of one that is not."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_TOKENS = 2**31
MAX_SECONDS = 10 * 366 * 86_400
WHOLE_LINE = "line"  # stands for a field where the line itself cannot be used


class Refused(ValueError):
    """(field, message) of something that cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field, self.message = field, message


def read_whole(row: dict[str, Any], name: str, place: str, least: int = 0, most: int = MAX_TOKENS) -> int:
    """Refused where it is no whole number within the bounds, or not there."""
    value = _there(row, name, place)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Refused(
            field_name(place, name), f"must be a whole number in {least} … {most}, not {shown(value)}"
        )
    return value


def read_time_us(row: dict[str, Any], name: str, place: str, unit_us: int = 1_000_000) -> int:
    """Whole microseconds of a number of units. Refused says which bound is broken."""
    value = _there(row, name, place)
    most = MAX_SECONDS * 1_000_000 // unit_us
    wanted = "must be a time from 0 on"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if 0 <= value <= most:  # false for NaN
            return round(value * unit_us)
        if value > most:  # an epoch, or another unit
            wanted = f"must be at most {most}, which is ten years from the trace's own zero"
    raise Refused(field_name(place, name), f"{wanted}, not {shown(value)}")


def read_blocks(row: dict[str, Any], tokens: int, block_size: int, place: str) -> NDArray[np.int64]:
    """[n] ids of the whole blocks of the prompt, and perhaps of the last one in part: a list, or checked already."""
    ids, name = _there(row, "hash_ids", place), field_name(place, "hash_ids")
    if not isinstance(ids, (list, np.ndarray)):
        raise Refused(name, "must be a list")
    fewest, most = tokens // block_size, -(-tokens // block_size)
    if not fewest <= len(ids) <= most:
        raise Refused(name, f"has {len(ids)} blocks; {tokens} tokens have {fewest} to {most} of {block_size}")
    if isinstance(ids, np.ndarray):
        return ids
    try:
        blocks = np.array(ids)
        if ids and (blocks.dtype != np.int64 or blocks.ndim != 1 or any(type(one) is bool for one in ids)):
            raise ValueError
        return blocks.astype(np.int64)  # of no block
    except (ValueError, OverflowError):
        raise Refused(name, "must hold whole numbers below 2**63") from None


def _there(row: dict[str, Any], name: str, place: str) -> object:
    if name not in row:
        raise Refused(field_name(place, name), "is missing")
    return row[name]


def field_name(place: str, name: str) -> str:
    """`requests[3].in`; a row's own field has no place."""
    return f"{place}.{name}" if place else name


def shown_key(key: str) -> str:
    """A key of the file's own may be anything; one that would not stand in a line as a name stands there quoted."""
    return _cut(key if key.isprintable() and key.strip() else ascii(key))


def shown(value: Any) -> str:
    """A value of the file's own, cut: it may be all of the file."""
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
