"""Requests of a run that came to no answer, and what that does to its TTFT: said before any number of it."""

from collections.abc import Mapping
from typing import Any


def lost_requests(metrics: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    """A sentence where requests were refused or had not ended at the horizon; else nothing, as in a lab that counts
    none."""
    requests = metrics.get("requests", 0)
    refused = metrics.get("refused_requests", 0)
    unfinished = requests - metrics.get("completed_requests", requests) - refused
    counted = [
        f"{count:,} of {requests:,} requests {'was' if count == 1 else 'were'} {how}"
        for count, how in ((refused, "refused"), (unfinished, "unfinished at the horizon"))
        if count > 0
    ]
    if not counted:
        return ""
    horizon = f", {params['horizon_s']:,} s," if "horizon_s" in params else ""
    return (
        f"{' and '.join(counted)}. TTFT counts the horizon{horizon} for each; interactivity, and whether the floor is "
        "kept, tell of the completed ones alone."
    )
