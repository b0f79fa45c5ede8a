"""What the harness's warm servers run: the product's entries, and one simulation that never ends.

Only the workers of the harness name this module (`simworkers.forkserver --entries`); the product knows no such seed.
"""

import time
from collections.abc import Mapping
from typing import Any

from simworkers import job_entries
from simworkers.job_entries import Entry, Progress

ENDLESS_SEED = 987_654_321


def run_job(lab: str, params: dict[str, Any], seed: int, progress: Progress) -> Any:
    """The lab's simulation, or for one seed a loop without an end."""
    if seed != ENDLESS_SEED:
        return job_entries.run_job(lab, params, seed, progress)
    while True:
        progress(1, 2)
        time.sleep(0.2)  # endless, but gentle to the other runs' time


ENTRIES: Mapping[str, Entry] = {"run_job": run_job}
