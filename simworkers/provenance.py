"""Where a report comes from: libraries, the machine, and how long it took."""

import time
from typing import Any

import numpy as np
import torch


def provenance(device: str, threads: int, started_s: float, **libraries: str) -> dict[str, Any]:
    """started_s: by `time.perf_counter`. libraries: versions of further ones."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        **libraries,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": threads,
        "wall_s": round(time.perf_counter() - started_s, 3),
    }
