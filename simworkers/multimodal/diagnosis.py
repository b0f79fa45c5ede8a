"""What went wrong first in a run, from the reasons of its misses: a cause, the turn in which it shows, and its sign.

A fault is work that had been done already and is done again, or a picture that is taken for another one. A cache that
is switched off is a decision and no fault. Standard library and pydantic alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from simworkers.multimodal.metrics import PictureRow, Reason, TurnRow


class Cause(IntEnum):
    """Numbered, because reports hold numbers; NONE where nothing went wrong."""

    NONE = 0
    OTHER_PIXELS = 1
    OTHER_FILE = 2
    OTHER_PROCESSOR = 3
    OTHER_SALT = 4
    OTHER_TEXT = 5
    SHARED_ID = 6
    KV_POOL = 7
    ENCODER_CACHE = 8
    PREPROCESSING_CACHE = 9


class Sign(IntEnum):
    """Fields of telemetry, by name."""

    NONE = 0
    CACHED_TOKENS = 1
    ENCODER_CACHE_USED = 2
    FILE = 3
    IDENTIFIER = 4
    KV_BLOCKS_USED = 5
    NAMESPACE = 6
    PATCH_BYTES_USED = 7
    PIXELS = 8
    PREEMPTIONS = 9
    PROMPT_TOKENS = 10
    QUEUE_US = 11
    TOKENS = 12


CAUSE_WORDS = {
    Cause.OTHER_PIXELS: "the client sends other pixels",
    Cause.OTHER_FILE: "the client sends another file with the same pixels, and files are what is compared",
    Cause.OTHER_PROCESSOR: "the processor is set otherwise",
    Cause.OTHER_SALT: "each turn has a prefix cache of its own",
    Cause.OTHER_TEXT: "text before the first picture changes",
    Cause.SHARED_ID: "two pictures share an identifier",
    Cause.KV_POOL: "the KV pool is too small",
    Cause.ENCODER_CACHE: "the encoder cache is too small",
    Cause.PREPROCESSING_CACHE: "the preprocessing cache is too small",
}
# The one field that tells a cause from all others, once the turn is found.
DECIDING = {
    Cause.NONE: Sign.NONE,
    Cause.OTHER_PIXELS: Sign.PIXELS,
    Cause.OTHER_FILE: Sign.FILE,
    Cause.OTHER_PROCESSOR: Sign.TOKENS,
    Cause.OTHER_SALT: Sign.NAMESPACE,
    Cause.OTHER_TEXT: Sign.CACHED_TOKENS,
    Cause.SHARED_ID: Sign.IDENTIFIER,
    Cause.KV_POOL: Sign.KV_BLOCKS_USED,
    Cause.ENCODER_CACHE: Sign.ENCODER_CACHE_USED,
    Cause.PREPROCESSING_CACHE: Sign.PATCH_BYTES_USED,
}
_OF_REASON: dict[Reason, Cause] = {
    "pixels_changed": Cause.OTHER_PIXELS,
    "bytes_changed": Cause.OTHER_FILE,
    "processor_changed": Cause.OTHER_PROCESSOR,
    "salt_changed": Cause.OTHER_SALT,
    "text_changed": Cause.OTHER_TEXT,
}


@dataclass(frozen=True)
class Fault:
    """turn: from 1; 0 where nothing went wrong."""

    cause: Cause
    turn: int

    @property
    def sign(self) -> Sign:
        return DECIDING[self.cause]


def first_fault(rows: Iterable[TurnRow]) -> Fault:
    """Of the lowest turn number, whoever's; in one turn the stage that is nearest to the answer counts."""
    return min(faults(rows), key=lambda fault: fault.turn, default=Fault(Cause.NONE, 0))


def faults(rows: Iterable[TurnRow]) -> list[Fault]:
    """All of them, stage by stage: pictures mistaken, then KV, embeddings and patches that were missing."""
    turns = list(rows)
    return [
        Fault(cause, row.turn)
        for look in (_mistaken, _prefix, _embeddings, _patches)
        for row in turns
        for cause in look(row)
    ]


def _mistaken(row: TurnRow) -> Iterator[Cause]:
    for index, picture in enumerate(row.pictures):
        if any(_is_taken_for(picture, other) for other in row.pictures[:index]):
            yield Cause.SHARED_ID


def _is_taken_for(picture: PictureRow, other: PictureRow) -> bool:
    same = picture.identifier == other.identifier and picture.tokens == other.tokens
    return same and picture.pixels != other.pixels


def _prefix(row: TurnRow) -> Iterator[Cause]:
    yield from _cause(row.prefix, evicted=Cause.KV_POOL)


def _embeddings(row: TurnRow) -> Iterator[Cause]:
    for picture in row.pictures:
        yield from _cause(picture.encode, evicted=Cause.ENCODER_CACHE)


def _patches(row: TurnRow) -> Iterator[Cause]:
    for picture in row.pictures:
        yield from _cause(picture.preprocess, evicted=Cause.PREPROCESSING_CACHE)


def _cause(reason: Reason, evicted: Cause) -> Iterator[Cause]:
    if reason == "evicted":
        yield evicted
    elif reason in _OF_REASON:
        yield _OF_REASON[reason]
