"""Request and response examples for the OpenAPI document."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiResponse

PROBLEMS = {
    (status, "application/problem+json"): OpenApiResponse(OpenApiTypes.OBJECT, description=text)
    for status, text in {
        400: "Values not accepted; a JSON pointer per field.",
        401: "No valid token.",
        403: "Closed, used up, or not enrolled.",
        404: "Not there, or somebody else's.",
        409: "The state has changed meanwhile.",
    }.items()
}

OPEN_ATTEMPT = [
    OpenApiExample("graded", value={}, request_only=True),
    OpenApiExample("practice", value={"practice": True, "seed": 7}, request_only=True),
]

SUBMIT_RUN = [
    OpenApiExample(
        "graded",
        request_only=True,
        value={
            "task_attempt": "6f1c2a52-8a54-4a53-9f3d-0a7b3f1f2c11",
            "params": {"eplb": True, "redundant_slots_per_gpu": 1},
            "prediction": {"straggler_gpu": 2, "max_over_mean": 1.8},
        },
    ),
    OpenApiExample("free exploration", request_only=True, value={"params": {"num_gpus": 8}, "seed": 3}),
]

RUN = [
    OpenApiExample(
        "invalid parameter",
        response_only=True,
        status_codes=["400"],
        media_type="application/problem+json",
        value={
            "type": "urn:staffloop:problem:invalid-input",
            "title": "Some values were not accepted",
            "status": 400,
            "detail": "params/top_k: Input should be less than or equal to 8",
            "errors": [{"pointer": "#/params/top_k", "detail": "Input should be less than or equal to 8"}],
        },
    )
]
