"""The largest load that keeps the floor, by the project's definition: 1, 2, 4 … sessions at once until the floor
breaks, then every number inside the last bracket; the answer is the largest with no failure below it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Searched(Generic[T]):
    """load 0: not even one session keeps the floor."""

    load: int
    best: T | None
    tried: dict[int, T]


def search_load(serve: Callable[[int], T], keeps: Callable[[T], bool], most: int) -> Searched[T]:
    """serve: a load's outcome. most: the largest load that makes sense, at least 1."""
    tried: dict[int, T] = {}

    def holds(load: int) -> bool:
        tried[load] = serve(load)
        return keeps(tried[load])

    load, good = 1, 0
    while good < most and holds(load):
        good, load = load, min(2 * load, most)
    if good < most:
        while good + 1 < load and holds(good + 1):
            good += 1
    return Searched(good, tried.get(good), tried)
