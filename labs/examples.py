"""Request and response examples for the OpenAPI document."""

from drf_spectacular.utils import OpenApiExample

from quiz.api.schema import request_example

OPEN_ATTEMPT = [
    request_example("graded", {}),
    request_example("practice", {"practice": True, "seed": 7}),
]

SUBMIT_RUN = [
    request_example(
        "graded",
        {
            "task_attempt": "6f1c2a52-8a54-4a53-9f3d-0a7b3f1f2c11",
            "params": {"eplb": True, "redundant_slots_per_gpu": 1},
            "prediction": {"straggler_gpu": 2, "max_over_mean": 1.8},
        },
    ),
    request_example("free exploration", {"params": {"num_gpus": 8}, "seed": 3}),
]

RUN = [
    OpenApiExample(
        "running",
        response_only=True,
        status_codes=["200"],
        value={
            "url": "https://lms.example/api/v1/runs/0d9a…/",
            "lab": "moe-eplb",
            "task": "moe-balance-hbm",
            "state": "running",
            "progress": {"done": 7, "total": 24},
            "score": None,
            "criteria": None,
        },
    )
]

STREAM_TICKET = [
    OpenApiExample(
        "A ticket",
        response_only=True,
        status_codes=["201"],
        value={
            "ticket": "q3J0bW9…",
            "expires_at": "2026-03-02T09:31:00Z",
            "events_url": "https://lms.example/api/v1/runs/0d9a4c1e-6a53-4a0e-9a77-1f1f3c6b2a10/events/?ticket=q3J0bW9…",
        },
    )
]

EVENTS = [
    OpenApiExample(
        "A run under way",
        response_only=True,
        status_codes=["200"],
        media_type="text/event-stream",
        value="retry: 2000\n\n"
        'id: 0.0\nevent: state\ndata: {"state": "queued", "try": 0, "reason": ""}\n\n'
        'id: 1.0\nevent: state\ndata: {"state": "running", "try": 1, "reason": ""}\n\n'
        'id: 1.8\nevent: progress\ndata: {"done": 7, "total": 24}\n\n',
    )
]
