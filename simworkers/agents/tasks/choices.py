"""Drawing one of several values."""

from collections.abc import Sequence
from typing import TypeVar

from simworkers.rng import Stream

Choice = TypeVar("Choice")


def one_of(stream: Stream, choices: Sequence[Choice]) -> Choice:
    return choices[stream.integer(len(choices))]
