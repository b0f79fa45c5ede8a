"""Runs on their way to a report, their figures and their events."""

from typing import Any

from labs.api.examples.shared import API, ATTEMPT_ID, OPEN_PARAMS, PREDICTION_MADE, RUN_ID, media_example
from quiz.api.schema import example, request_example

QUEUED_RUN: dict[str, Any] = {
    "url": f"{API}/runs/{RUN_ID}/",
    "public_id": RUN_ID,
    "lab": "moe-eplb",
    "task": "moe-balance-hbm",
    "task_attempt": ATTEMPT_ID,
    "state": "queued",
    "reason": "",
    "progress": {"done": 0, "total": None},
    "queue": {"position": 2, "expected_wait_s": 4.1, "problem": None},
    "params": OPEN_PARAMS,
    "seed": None,
    "artefact": None,
    "prediction": PREDICTION_MADE,
    "varied_from": None,
    "score": None,
    "criteria": None,
    "prediction_check": None,
    "metrics": None,
    "invariants": None,
    "figures": [],
    "figures_ready": False,
    "reused": False,
    "tries": 0,
    "engine_version": "3d80cf2aa948c7cb",
    "provenance": None,
    "report_url": f"{API}/runs/{RUN_ID}/report/",
    "created_at": "2026-03-02T09:31:00Z",
    "started_at": None,
    "finished_at": None,
}

RUNNING_RUN = {
    **QUEUED_RUN,
    "state": "running",
    "progress": {"done": 7, "total": 24},
    "queue": None,
    "tries": 1,
    "started_at": "2026-03-02T09:31:04Z",
}

FIGURE = {
    "name": "gpu-tokens",
    "title": "Tokens that each GPU receives, before and after balancing",
    "caption": "The dark outline marks the straggler.",
    "url": f"{API}/runs/{RUN_ID}/figures/gpu-tokens/",
}

INVARIANTS = {"tokens_conserved": {"state": "held", "first_event": None}}
PROVENANCE = {"torch": "2.13.0", "cpu_capability": "AVX2", "wall_seconds": 1.7}
GRADED_RUN = {
    **RUNNING_RUN,
    "state": "graded",
    "progress": {"done": 24, "total": 24},
    "params": {**OPEN_PARAMS, "num_gpus": 4, "num_experts": 8, "top_k": 2},
    "seed": 11,
    "score": "0.5250",
    "criteria": [
        {
            "name": "balance",
            "title": "Balance between contiguous placement and the sampling floor",
            "kind": "between",
            "values": {"max_over_mean_mean": 1.5, "max_over_mean_before_mean": 2.0, "sampling_floor": 1.0},
            "share": "0.5000",
            "points": "9.50",
            "earned": "4.7500",
            "passed": False,
            "blocked_by": [],
            "feedback": "Which experts draw more than one GPU's fair share?",
        }
    ],
    "prediction_check": [
        {"field": "straggler_gpu", "predicted": 2, "metric": "straggler_gpu_before", "actual": 2}
    ],
    "metrics": {"max_over_mean_mean": 1.5, "sampling_floor": 1.0, "within_budget": 1},
    "invariants": INVARIANTS,
    "figures": [FIGURE],
    "figures_ready": True,
    "provenance": PROVENANCE,
    "finished_at": "2026-03-02T09:31:06Z",
}

CANCELLED_RUN = {
    **QUEUED_RUN,
    "state": "cancelled",
    "reason": "Cancelled by the learner.",
    "queue": None,
    "finished_at": "2026-03-02T09:31:02Z",
}

RUN_ROW = {
    name: GRADED_RUN[name]
    for name in (
        *("url", "public_id", "lab", "task", "task_attempt", "state", "reason", "score"),
        *("created_at", "finished_at"),
    )
}

REPORT = {
    "lab": "moe-eplb",
    "engine_version": "3d80cf2aa948c7cb",
    "seed": 11,
    "params": GRADED_RUN["params"],
    "metrics": GRADED_RUN["metrics"],
    "invariants": INVARIANTS,
    "provenance": PROVENANCE,
}

SPEC = {"mark": "bar", "data": {"values": [{"gpu": 0, "tokens": 5120}]}}
TICKET = {
    "ticket": "q3J0bW9…",
    "expires_at": "2026-03-02T09:32:00Z",
    "events_url": f"{API}/runs/{RUN_ID}/events/?ticket=q3J0bW9…",
}

SUBMIT_RUN = [
    request_example(
        "graded", {"task_attempt": ATTEMPT_ID, "params": OPEN_PARAMS, "prediction": PREDICTION_MADE}
    ),
    request_example("free exploration", {"params": {"num_gpus": 8}, "seed": 3}),
    example("Queued", QUEUED_RUN, status=202),
]

RUN = [example("Running", RUNNING_RUN), example("Graded", GRADED_RUN)]
STREAM_TICKET = [example("A ticket", TICKET, status=201)]
FIGURE_CONTENT = [
    media_example("A specification", "application/vnd.vegalite+json", SPEC),
    media_example("The same", "application/json", SPEC),
    media_example("A picture", "image/svg+xml", "<svg …></svg>"),
    media_example("The data", "text/csv", "gpu,tokens\r\n0,5120\r\n"),
]

EVENTS = [
    media_example(
        "A run under way",
        "text/event-stream",
        "retry: 2000\n\n"
        'id: 0.0\nevent: state\ndata: {"state": "queued", "try": 0, "reason": ""}\n\n'
        'id: 1.0\nevent: state\ndata: {"state": "running", "try": 1, "reason": ""}\n\n'
        'id: 1.8\nevent: progress\ndata: {"done": 7, "total": 24}\n\n',
    )
]
