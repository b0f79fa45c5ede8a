"""What the examples of several resources name, and how bodies that are no JSON are shown."""

from typing import Any

from drf_spectacular.utils import OpenApiExample

SITE = "https://lms.example"
API = f"{SITE}/api/v1"
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


def media_example(name: str, media_type: str, value: Any) -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=["200"], media_type=media_type)


def body_example(name: str, media_type: str, value: Any) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True, media_type=media_type)


def schema_examples(name: str, value: Any) -> list[OpenApiExample]:
    return [media_example(name, media, value) for media in ("application/schema+json", "application/json")]
