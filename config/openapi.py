"""What every operation of the OpenAPI document has in common, added once: limits, ETags, and how it may fail."""

from typing import Any

from config import outages
from config.problems import MEDIA_TYPE, SLUGS, body
from quiz.api.schema import MEANINGS

TAGS = [
    {"name": "people", "description": "Accounts and tokens."},
    {"name": "course", "description": "Classes, and the text of the track."},
    {"name": "quiz", "description": "Quizzes: attempts, answers, marked results."},
    {"name": "grades", "description": "What counts, activity by activity."},
    {
        "name": "labs",
        "description": "Simulations that a worker computes, and the JSON Schemas of what they take.",
    },
    {"name": "tasks", "description": "Graded tasks of a lab; each attempt draws an instance of its own."},
    {"name": "runs", "description": "Submissions of a lab: state, progress, result, and a stream of events."},
    {"name": "traces", "description": "Recorded traffic for labs that take it: handed in, checked, offered."},
    {"name": "figures", "description": "Pictures of a run: Vega-Lite, SVG, PNG, or the data behind them."},
]

HEADERS: dict[str, dict[str, Any]] = {
    "RateLimit-Policy": {
        "description": 'Each limit: name, requests `q` in a window of `w` seconds, as `"learner";q=1200;w=60`.',
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": 'What is left: `r` requests until the window ends in `t` seconds, as `"learner";r=1199;t=60`.',
        "schema": {"type": "string"},
    },
    "Retry-After": {
        "description": "Seconds after which to ask again.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "ETag": {
        "description": "Of this answer; send it as If-None-Match.",
        "schema": {"type": "string"},
    },
    "Idempotent-Replayed": {
        "description": "`true` where this is the stored first answer to the Idempotency-Key.",
        "schema": {"type": "string", "const": "true"},
    },
}

IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "schema": {"type": "string"},
    "description": "The ETag of the answer you have; unchanged, it is answered 304 without a body.",
}

# One problem document a status; `detail` says what is the matter in each case.
DETAILS = {
    400: "choice: 'z' is not an option of this question",
    401: "Authentication credentials were not provided.",
    403: "Open class is closed.",
    404: "There is nothing at this address.",
    406: "Could not satisfy the request Accept header.",
    409: "A run of this attempt is under way.",
    413: "The body has 2097152 bytes; at most 1048576 are read.",
    415: 'Unsupported media type "text/plain" in request.',
    422: "This Idempotency-Key came with another body before; use a new key.",
    429: "Request was throttled. Expected available in 12 seconds.",
    501: "Streams need an ASGI server here; poll the run with If-None-Match instead.",
    503: outages.DETAIL,
}
TYPES = {
    **SLUGS,
    400: "invalid-input",
    403: "closed",
    409: "conflict",
    422: "idempotency-key-reused",
    501: "no-streaming",
}
ERRORS = {400: [{"pointer": "#/choice", "detail": "'z' is not an option of this question"}]}


def complete(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """drf-spectacular's postprocessing hook."""
    result["tags"] = TAGS
    components = result.setdefault("components", {})
    components["headers"] = HEADERS
    components["examples"] = {
        f"Problem{status}": {
            "value": body(status, TYPES[status], detail, errors=ERRORS.get(status)),
        }
        for status, detail in DETAILS.items()
    }
    for schema in components["schemas"].values():
        mend_nullable(schema)
    for path, methods in result["paths"].items():
        for method, operation in methods.items():
            complete_operation(path, method, operation)
    return result


def mend_nullable(schema: Any) -> None:
    """Where anything is allowed, null is too: the generator's `oneOf` of both would refuse null as ambiguous."""
    if isinstance(schema, dict):
        if {} in schema.get("oneOf", []):
            del schema["oneOf"]
        for part in schema.values():
            mend_nullable(part)


def complete_operation(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    names = {parameter["name"] for parameter in operation.get("parameters", [])}
    for failure in expected_failures(path, method, operation, names):
        responses.setdefault(str(failure), {"description": MEANINGS[failure]})
    streams = "text/event-stream" in responses.get("200", {}).get("content", {})
    if method == "get" and "200" in responses and not streams:
        operation.setdefault("parameters", []).append(IF_NONE_MATCH)
        responses["304"] = {"description": "Unchanged since the ETag in If-None-Match."}
        for status in ("200", "304"):
            add_headers(responses[status], "ETag")
    for status, response in responses.items():
        if int(status) < 400 or status == "429":
            add_headers(response, "RateLimit-Policy", "RateLimit")
        if status in ("429", "503"):
            add_headers(response, "Retry-After")
        if int(status) < 400 and "Idempotency-Key" in names:
            add_headers(response, "Idempotent-Replayed")
        if int(status) >= 400:
            response["content"] = problem_content(int(status))


def expected_failures(path: str, method: str, operation: dict[str, Any], names: set[str]) -> list[int]:
    """What may come from outside the view: authentication, negotiation, reading the body, limits, an outage."""
    found = [400, 406, 429, 503]  # 400: a NUL in the query, a charset that is none
    schemes = {name for scheme in operation.get("security", []) for name in scheme}
    if schemes:
        found.append(401)
    if "Session" in schemes and method != "get":
        found.append(403)  # without the page's CSRF token
    if "{" in path or "cursor" in names:
        found.append(404)
    if "requestBody" in operation:
        found += [413, 415]
    if "Idempotency-Key" in names:
        found += [409, 413, 415, 422]
    return found


def add_headers(response: dict[str, Any], *names: str) -> None:
    headers = response.setdefault("headers", {})
    for name in names:
        headers.setdefault(name, {"$ref": f"#/components/headers/{name}"})


def problem_content(status: int) -> dict[str, Any]:
    return {
        MEDIA_TYPE: {
            "schema": {"$ref": "#/components/schemas/Problem"},
            "examples": {"Problem": {"$ref": f"#/components/examples/Problem{status}"}},
        }
    }
