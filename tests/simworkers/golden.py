"""Published results to hold ours against; they lie beside the repository, or where STAFFLOOP_SHARED says."""

import json
import os
from pathlib import Path
from typing import Any

from tests.requirements import require

ROOT = Path(__file__).parents[2]


def load_golden(name: str) -> Any:
    """The parsed file; skips the test, naming the file, where it is not there."""
    shared = Path(os.environ.get("STAFFLOOP_SHARED", ROOT.parent / "shared"))
    path = shared / "golden" / name
    require(path.is_file(), f"shared/golden/{name}")
    return json.loads(path.read_text())
