"""Published results to hold ours against; they lie beside the repository, or where STAFFLOOP_SHARED says."""

import json
import os
from pathlib import Path
from typing import Any

from tests.requirements import require

ROOT = Path(__file__).parents[2]


def shared_file(name: str) -> Path:
    """Skips the test, naming the file, where it is not there."""
    path = Path(os.environ.get("STAFFLOOP_SHARED", ROOT.parent / "shared")) / name
    require(path.is_file(), f"shared/{name}")
    return path


def load_golden(name: str) -> Any:
    """The parsed file of recorded results."""
    return json.loads(shared_file(f"golden/{name}").read_text())
