"""One line of a trace as a JSON object, quickly where prompts repeat one another.

Nearly all of a session's text is the block ids of prompts that begin as the prompt before did. What two of them begin
with alike is decoded once, and its ids are kept once: prompts that only grow are views of one array.

Whatever is unusual about a line sends it through the plain parser, which is the definition.
"""

import json
import re
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simworkers.agents.traffic.trace_fields import WHOLE_LINE, Refused, field_name, shown_key

Ids = NDArray[np.int64]
Pairs = list[tuple[str, Any]]

KEY = b'"hash_ids"'
OPENING = re.compile(rb"\s*:\s*\[")


class _Unusual(Exception):
    """The plain parser has to say what this line is."""


class _Blamed(Exception):
    """A field has to be named: a key that stands twice in one object, or an integer that is too long to be read."""


def count_parts(line: bytes) -> int:
    """Objects, lists and strings, at most: what a parsed line's memory and time go by, told before it is parsed."""
    if len(line) < 4096:
        return line.count(b"{") + line.count(b"[") + line.count(b'"') // 2
    chars = np.frombuffer(line, np.uint8)  # several times faster where a line is long
    opening = chars & 0xDF == ord("[")  # of { as well
    return int(np.count_nonzero(opening)) + int(np.count_nonzero(chars == ord('"'))) // 2


def parse_line(line: bytes) -> dict[str, Any]:
    """The object; a list of hash_ids may be an array of them. Refused for anything but an object."""
    if line.find(KEY, line.find(KEY) + 1) < 0:  # nothing to compare
        return parse_plainly(line)
    try:
        return _parse_in_parts(line)
    except _Unusual:
        return parse_plainly(line)


def parse_plainly(line: bytes) -> dict[str, Any]:
    """The same, every list a list."""
    try:
        row = _decoded(line, _PLAIN)
    except _Blamed:
        raise _first_fault(_decoded(line, _IN_PAIRS)) from None
    if not isinstance(row, dict):
        raise Refused(WHOLE_LINE, "is no JSON object")
    return row


def _decoded(line: bytes, decoder: json.JSONDecoder) -> Any:
    """As json.loads would, which makes a decoder for every call."""
    try:
        return decoder.decode(line.decode(json.detect_encoding(line), "surrogatepass"))
    except json.JSONDecodeError as error:  # its own words count lines as well, from 1 in every line
        raise Refused(WHOLE_LINE, f"is not JSON: {error.msg} at character {error.pos + 1}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise Refused(WHOLE_LINE, f"is not JSON: {error}") from error
    except ValueError as error:  # of int: text of that many digits takes too long
        raise _Blamed from error


def _object(pairs: Pairs) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Blamed
    return found


class _LongInteger(str):
    """Text of an integer that was not read."""

    __slots__ = ()


def _integer(text: str) -> int | _LongInteger:
    try:
        return int(text)
    except ValueError:
        return _LongInteger(text)


_PLAIN = json.JSONDecoder(object_pairs_hook=_object)
_IN_PAIRS = json.JSONDecoder(object_pairs_hook=tuple, parse_int=_integer)


_MAY_BE_AT_FAULT = (tuple, list, _LongInteger)


def _first_fault(whole: object) -> Refused:
    """What is wrong, with its field. Objects are tuples of pairs here, so that none has lost one."""
    left = [("", whole)]
    for place, found in left:  # which grows meanwhile
        if isinstance(found, _LongInteger):
            digits = len(found.removeprefix("-"))
            return Refused(
                place or WHOLE_LINE,
                f"has {digits:,} digits, at most {sys.get_int_max_str_digits():,} are read",
            )
        if isinstance(found, tuple):
            seen = set()
            for key, one in found:
                if key in seen:
                    return Refused(field_name(place, shown_key(key)), "stands there twice")
                seen.add(key)
                if isinstance(one, _MAY_BE_AT_FAULT):
                    left.append((field_name(place, shown_key(key)), one))
        if isinstance(found, list):
            deep = [(index, one) for index, one in enumerate(found) if isinstance(one, _MAY_BE_AT_FAULT)]
            left += [(f"{place}[{index}]", one) for index, one in deep]
    raise AssertionError("nothing is wrong with it")


def _parse_in_parts(line: bytes) -> dict[str, Any]:
    """The numbers of each list give way to one, the list's own, and the rest is parsed as ever.

    Without backslashes a quote is a string's end or begin, so that KEY is a key, or the line no JSON with or without
    its lists.
    """
    if b"\\" in line:
        raise _Unusual
    lists = _find_lists(line)
    if len(lists) != line.count(b"hash_ids"):
        raise _Unusual
    ids = _decode([line[start:end] for start, end in lists])
    edges = [0, *(edge for found in lists for edge in found), len(line)]
    kept = [line[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    rest = b"".join(part + b"%d" % number for number, part in enumerate(kept[:-1])) + kept[-1]

    def put_back(pairs: Pairs) -> dict[str, Any]:
        found = _object(pairs)
        if "hash_ids" in found:
            found["hash_ids"] = ids[found["hash_ids"][0]]
        return found

    try:
        row = json.loads(rest, object_pairs_hook=put_back)
    except (ValueError, RecursionError, _Blamed) as error:
        raise _Unusual from error
    if not isinstance(row, dict):
        raise _Unusual
    return row


def _find_lists(line: bytes) -> list[tuple[int, int]]:
    """Where the text between the brackets behind each KEY starts and ends."""
    lists, at = [], line.find(KEY)
    while at >= 0:
        opening = OPENING.match(line, at + len(KEY))
        end = -1 if opening is None else line.find(b"]", opening.end())
        if opening is None or end < 0:
            raise _Unusual
        lists.append((opening.end(), end))
        at = line.find(KEY, end)
    return lists


class _Chain:
    """Ids that only grew, piece after piece."""

    def __init__(self, start: Ids) -> None:
        self.pieces, self.length = [start], len(start)

    def grow(self, piece: Ids) -> None:
        self.pieces.append(piece)
        self.length += len(piece)

    def whole(self) -> Ids:
        """[length] all ids, in one array."""
        self.pieces = [np.concatenate(self.pieces)]
        return self.pieces[0]


def _decode(texts: list[bytes]) -> list[Ids]:
    """The ids of each text. _Unusual where one is not a list of whole numbers below 2**63."""
    chains = [_Chain(np.empty(0, dtype=np.int64))]
    used, before = [], b""
    for text in texts:
        same = _same_bytes(before, text)
        if chains[-1].length and same == len(before) and text[same : same + 1] == b",":
            chains[-1].grow(_ids(text[same + 1 :]))
        elif text != before:
            cut = text.rfind(b",", 0, same) + 1  # a number that only begins alike is another
            chains.append(_Chain(chains[-1].whole()[: text.count(b",", 0, cut)]))
            chains[-1].grow(_ids(text[cut:], may_be_empty=not cut))
        used.append((len(chains) - 1, chains[-1].length))
        before = text
    whole = [chain.whole() for chain in chains]
    return [whole[chain][:length] for chain, length in used]


def _same_bytes(first: bytes, second: bytes) -> int:
    """How many bytes both begin with."""
    length = min(len(first), len(second))
    if first[:length] == second[:length]:
        return length
    differ = np.frombuffer(first, np.uint8, length) != np.frombuffer(second, np.uint8, length)
    return int(differ.argmax())


def _ids(text: bytes, may_be_empty: bool = False) -> Ids:
    if text.translate(None, b"0123456789, "):
        raise _Unusual
    try:
        ids = json.loads(b"[" + text + b"]")
        if not ids and not may_be_empty:
            raise _Unusual
        return np.array(ids, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise _Unusual from error
