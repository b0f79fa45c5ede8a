"""Tasks and attempts of one."""

from typing import Any

from labs.api.examples.labs import PARAMETER_SCHEMA
from labs.api.examples.shared import API, ATTEMPT_ID, OPEN_PARAMS, SITE
from quiz.api.schema import example, request_example

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
    "leaderboard": None,
}

RANKED_TASK = {
    **TASK,
    "leaderboard": {
        "url": f"{API}/tasks/moe-balance-hbm/leaderboard/",
        "metric": "max_over_mean_mean",
        "description": "Tokens of the busiest GPU ÷ mean, mean over (step, layer), chosen setting.",
        "unit": "ratio",
        "more_is_better": False,
    },
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
    "explore_url": f"{SITE}/labs/moe-eplb/?attempt={ATTEMPT_ID}#parameters",
}

PREPARING: dict[str, Any] = {
    **ATTEMPT,
    "explore_url": None,
    "state": "preparing",
    "visible": None,
    "defaults": None,
    "opened_at": None,
}

OPEN_ATTEMPT = [
    request_example("graded", {}),
    request_example("practice", {"practice": True, "seed": 7}),
    example("A worker is drawing the instance", PREPARING, status=201),
    example("Open already", ATTEMPT),
]
