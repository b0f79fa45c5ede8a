"""Labs, their schemas and their sweeps."""

from labs.api.examples.shared import API

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
        "lines": "eplb",
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
