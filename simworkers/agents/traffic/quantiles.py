"""Distributions as tables of whole numbers, drawn by integer arithmetic: the same on every machine."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simworkers.rng import Stream

STEPS = 2**24  # of the unit interval; times the largest difference of two values stays below 2**63
PLASTIC = (12_664_745, 9_560_335)  # 1/p and 1/p² in steps, where p³ = p + 1 (Roberts 2018)


@dataclass(frozen=True)
class Quantiles:
    """Values at rising per mille from 0 to 1000, and straight lines between them."""

    knots: tuple[tuple[int, int], ...]  # (per mille, value)

    def __post_init__(self) -> None:
        places, values = zip(*self.knots, strict=True)
        if places[0] != 0 or places[-1] != 1000 or list(places) != sorted(set(places)):
            raise ValueError("knots: must rise from 0 to 1000 per mille")
        if list(values) != sorted(values) or not 0 <= values[-1] - values[0] < 2**38:
            raise ValueError("knots: values must not fall, and must lie less than 2**38 apart")

    def at(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """[n] values at n places, each in steps of 1/STEPS, rounded down."""
        places, values = np.array(self.knots, dtype=np.int64).T
        places = places * STEPS // 1000
        part = np.searchsorted(places, steps, side="right") - 1
        run, rise = np.diff(places)[part], np.diff(values)[part]
        found: NDArray[np.int64] = values[part] + (steps - places[part]) * rise // run
        return found

    def draw(self, stream: Stream, count: int) -> NDArray[np.int64]:
        """[count] independent values."""
        return self.at(stream.integers(STEPS, count))

    def spread(self, stream: Stream, count: int) -> NDArray[np.int64]:
        """[count] values, one from each of `count` equally likely parts in drawn order: few show what many would."""
        inside = stream.integers(STEPS, count)
        return self.at((stream.permutation(count) * STEPS + inside) // count)

    def beside(self, stream: Stream, rank: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """[n] values spread beside n others of ranks 0 … n − 1, so that neither small nor large ones keep together.

        A Kronecker sequence from a drawn place; axes 0 and 1 are spread beside each other too.
        """
        return self.at((rank * PLASTIC[axis] + stream.integer(STEPS)) % STEPS)
