"""Recorded traces, and how one is handed in."""

from typing import Any

from labs.api.examples.shared import API, body_example
from quiz.api.schema import example

TRACE_ID = "b7a0f0b2-6f7c-4c4e-8d55-2a2f6f0c7f31"
TRACE: dict[str, Any] = {
    "url": f"{API}/traces/{TRACE_ID}/",
    "public_id": TRACE_ID,
    "name": "agent_sessions.jsonl.gz",
    "sha256": "24b27a26c584a4c9a14de605ac064b16cf2c6d8a7130ca95b63e579e937a99dc",
    "bytes": 424245,
    "state": "ready",
    "reason": "",
    "offered": False,
    "default_of": [],
    "summary": {
        "sessions": 30,
        "has_sessions": True,
        "requests": 1179,
        "subagent_requests": 158,
        "block_references": 1549169,
        "block_sizes": [64],
        "block_sizes_left_out": 0,
        "input_tokens": 99184322,
        "output_tokens": 517841,
        "longest_session_s": 53056.0,
        "subagent_times": "marker",
        "lines_refused": 0,
        "repairs": 4,
        "notes": [
            {
                "line": 15,
                "field": "requests",
                "message": "were not in order of time, and were sorted",
                "is_refused": False,
            }
        ],
    },
    "created_at": "2026-03-02T09:30:00Z",
    "checked_at": "2026-03-02T09:30:04Z",
}

CHECKING_TRACE: dict[str, Any] = {**TRACE, "state": "checking", "summary": None, "checked_at": None}
REFUSED_TRACE: dict[str, Any] = {
    **TRACE,
    "state": "refused",
    "reason": "this gzip file ends in the middle",
    "summary": None,
}

LINE = (
    '{"id": "s1", "block_size": 64, "requests": [{"t": 0.0, "in": 130, "out": 20, "hash_ids": [1, 2]}, '
    '{"t": 9.5, "in": 260, "out": 31, "hash_ids": [1, 2, 3, 4]}]}\n'
)

HAND_IN_TRACE = [
    body_example("One session, plain", "application/x-ndjson", LINE),
    body_example("Of a name alone", "application/octet-stream", LINE),
    body_example("Compressed", "application/gzip", "the bytes that gzip makes of such lines"),
    body_example("From a form", "multipart/form-data", {"file": LINE, "name": "Agents on Monday"}),
    example("Being checked", CHECKING_TRACE, status=202),
    example("Checked before", TRACE, status=201),
    example("Held already", TRACE),
]
