"""Leaderboards and what one enters."""

from typing import Any

from labs.api.examples.shared import RUN_ID
from quiz.api.schema import example, request_example

LEADERBOARD_ROW = {"rank": 1, "display_name": "Quiet router", "own": False, "score": None, "learner": None}
LEADERBOARD_STAFF_ROW = {
    **LEADERBOARD_ROW,
    "score": 1.0725,
    "learner": {"public_id": "3f0f6a4e-54f5-4d3c-9d0e-2f8f3f1f9a11", "username": "ada"},
}

LEADERBOARD_ENTRY: dict[str, Any] = {
    "display_name": "Quiet router",
    "state": "ranked",
    "rank": 1,
    "score": 1.0725,
    "created_at": "2026-03-02T09:40:00Z",
    "final_runs": [
        {
            "run": RUN_ID,
            "state": "ready",
            "score": 1.0725,
            "reason": "",
            "engine_version": "3d80cf2aa948c7cb",
            "computed_at": "2026-03-02T09:40:06Z",
        }
    ],
}

COMPUTING_ENTRY: dict[str, Any] = {
    **LEADERBOARD_ENTRY,
    "state": "computing",
    "rank": None,
    "score": None,
    "final_runs": [
        {**LEADERBOARD_ENTRY["final_runs"][0], "state": "waiting", "score": None, "computed_at": None}
    ],
}

ENTER_LEADERBOARD = [
    request_example("under a name of one's choosing", {"display_name": "Quiet router"}),
    example("Entered; a worker computes", COMPUTING_ENTRY, status=201),
    example("Ranked", LEADERBOARD_ENTRY),
]
