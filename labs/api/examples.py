"""Request and response examples for the OpenAPI document. A test compares their shape with what the API answers."""

from typing import Any

from drf_spectacular.utils import OpenApiExample

from quiz.api.schema import example, request_example

API = "https://lms.example/api/v1"
RUN_ID = "0d9a4c1e-6a53-4a0e-9a77-1f1f3c6b2a10"
ATTEMPT_ID = "6f1c2a52-8a54-4a53-9f3d-0a7b3f1f2c11"
PREDICTION_MADE = {"straggler_gpu": 2, "max_over_mean": 1.8}
OPEN_PARAMS = {
    "eplb": True,
    "eplb_policy": "auto",
    "redundant_slots_per_gpu": 1,
    "window_steps": 4,
    "interval_steps": 8,
}

LAB = {
    "url": f"{API}/labs/moe-eplb/",
    "slug": "moe-eplb",
    "title": "Send tokens to experts",
    "summary": "Every rank joins each layer's collective, so the slowest sets the pace.",
    "engine_version": "3d80cf2aa948c7cb",
    "schemas": {name: f"{API}/labs/moe-eplb/schemas/{name}/" for name in ("parameters", "metrics", "report")},
    "tasks": [f"{API}/tasks/moe-balance-hbm/"],
    "runs_url": f"{API}/labs/moe-eplb/runs/",
    "sweep_url": f"{API}/labs/moe-eplb/sweep/",
}

PREDICTION_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:staffloop:schema:v1:balance-hbm:prediction",
    "type": "object",
    "properties": {
        "straggler_gpu": {
            "description": "GPU that receives the most tokens while the balancer is off.",
            "minimum": 0,
            "maximum": 63,
            "type": "integer",
            "unit": "GPU index, from 0",
        }
    },
    "required": ["straggler_gpu"],
    "additionalProperties": False,
}
PARAMETER_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:staffloop:schema:v1:moe-eplb:parameters",
    "type": "object",
    "properties": {
        "num_gpus": {
            "description": "GPUs the experts are spread over.",
            "default": 4,
            "minimum": 1,
            "maximum": 64,
            "type": "integer",
            "unit": "GPUs",
        }
    },
    "additionalProperties": False,
}
TASK = {
    "url": f"{API}/tasks/moe-balance-hbm/",
    "slug": "moe-balance-hbm",
    "title": "Balance within an HBM budget",
    "points": "10.00",
    "lab": "moe-eplb",
    "prompt_html": "<p>Some experts draw several times their share …</p>\n",
    "open_parameters": PARAMETER_SCHEMA,
    "prediction": PREDICTION_SCHEMA,
    "artefact": None,
    "schemas": {
        name: f"{API}/tasks/moe-balance-hbm/schemas/{name}/" for name in ("parameters", "prediction")
    },
    "criteria": [
        {
            "name": "within_budget",
            "title": "Extra copies fit the HBM budget",
            "kind": "exact",
            "points": "0.00",
            "requires": [],
        }
    ],
    "attempts_allowed": 3,
    "attempts_url": f"{API}/tasks/moe-balance-hbm/attempts/",
}

ATTEMPT = {
    "url": f"{API}/task-attempts/{ATTEMPT_ID}/",
    "public_id": ATTEMPT_ID,
    "task": "moe-balance-hbm",
    "offering": "open",
    "number": 1,
    "practice": False,
    "seed": None,
    "state": "open",
    "visible": {"num_gpus": 4, "observed_load": [[512, 388, 240, 908]]},
    "defaults": {**OPEN_PARAMS, "eplb": False, "redundant_slots_per_gpu": 0},
    "prediction": None,
    "attempts_left": 2,
    "error": "",
    "created_at": "2026-03-02T09:30:00Z",
    "opened_at": "2026-03-02T09:30:02Z",
    "runs": [],
    "runs_url": f"{API}/labs/moe-eplb/runs/",
}
PREPARING: dict[str, Any] = {
    **ATTEMPT,
    "state": "preparing",
    "visible": None,
    "defaults": None,
    "opened_at": None,
}

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

SWEEP_WAITING = {
    "state": "waiting",
    "engine_version": "3d80cf2aa948c7cb",
    "tries": 1,
    "reason": "",
    "created_at": "2026-03-02T09:30:00Z",
    "computed_at": None,
    "data": None,
}
SWEEP = {
    **SWEEP_WAITING,
    "state": "ready",
    "computed_at": "2026-03-02T09:30:07Z",
    "data": {
        "lab": "moe-eplb",
        "engine_version": "3d80cf2aa948c7cb",
        "seed": 0,
        "params": {"num_gpus": 4, "num_experts": 8, "top_k": 2},
        "axes": [
            {"name": "skew_percent", "unit": "%", "values": [0, 100]},
            {"name": "eplb", "unit": "", "values": [False, True]},
        ],
        "metrics": [
            {
                "name": "speedup",
                "unit": "ratio",
                "description": "step_time_before_us ÷ step_time_us.",
                "values": [[1.0, 0.99], [1.0, 1.63]],
            }
        ],
    },
}

OPEN_ATTEMPT = [
    request_example("graded", {}),
    request_example("practice", {"practice": True, "seed": 7}),
    example("A worker is drawing the instance", PREPARING, status=201),
    example("Open already", ATTEMPT),
]
SUBMIT_RUN = [
    request_example(
        "graded", {"task_attempt": ATTEMPT_ID, "params": OPEN_PARAMS, "prediction": PREDICTION_MADE}
    ),
    request_example("free exploration", {"params": {"num_gpus": 8}, "seed": 3}),
    example("Queued", QUEUED_RUN, status=202),
]
RUN = [example("Running", RUNNING_RUN), example("Graded", GRADED_RUN)]
STREAM_TICKET = [example("A ticket", TICKET, status=201)]


def media_example(name: str, media_type: str, value: Any) -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=["200"], media_type=media_type)


def schema_examples(name: str, value: Any) -> list[OpenApiExample]:
    return [media_example(name, media, value) for media in ("application/schema+json", "application/json")]


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
