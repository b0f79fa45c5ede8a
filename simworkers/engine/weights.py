"""Seeded weights: the same numbers on every machine, because they come from integers by exact steps."""

import math

import numpy as np
import torch

from simworkers.rng import Stream


class WeightSource:
    """Draws one named tensor after another. Each depends on the seed and its own name, not on what was drawn before."""

    def __init__(self, seed: int, dtype: torch.dtype, device: str = "cpu") -> None:
        self.seed = seed
        self.dtype = dtype
        self.device = device

    def matrix(self, name: str, outputs: int, inputs: int, gain: float = 1.0) -> torch.Tensor:
        """[outputs, inputs] uniform numbers with variance gain² ÷ inputs, so that activations keep their size."""
        words = Stream(self.seed, "weights", name).words(outputs * inputs)
        uniform = (words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0  # 53 bits, in [−1, 1)
        scaled = uniform * (gain * math.sqrt(3.0 / inputs))
        return torch.from_numpy(scaled.reshape(outputs, inputs)).to(self.device, self.dtype)

    def ones(self, size: int) -> torch.Tensor:
        """[size] the gain of a norm."""
        return torch.ones(size, dtype=self.dtype, device=self.device)
