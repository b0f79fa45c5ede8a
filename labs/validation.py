"""A submission checked by the lab's own pydantic models; every fault points at its field."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from quiz.errors import InvalidInput
from simworkers.catalog import Job, TaskKind

Fault = tuple[str, str]  # JSON pointer into the request's body, sentence


def check(
    model: type[BaseModel], values: Any, *, at: str, context: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`values` with defaults filled in, as JSON. Raises InvalidInput with pointers below `at`."""
    if not isinstance(values, dict):
        raise InvalidInput([(at, "must be an object")])
    try:
        parsed = model.model_validate(values, context=dict(context or {}))
    except ValidationError as exc:
        raise InvalidInput(list(faults(exc, at))) from exc
    return parsed.model_dump(mode="json")


def faults(exc: ValidationError, at: str) -> Iterable[Fault]:
    for error in exc.errors():
        place = "".join(f"/{part}" for part in error["loc"])
        text = "is not a parameter here" if error["type"] == "extra_forbidden" else error["msg"]
        yield at + place, text.removeprefix("Value error, ")


def check_params(job: Job, values: Any) -> dict[str, Any]:
    """Parameters of a free run."""
    return check(job.params, values, at="/params")


def check_submission(
    job: Job, kind: TaskKind, drawn: Mapping[str, Any], params: Any, prediction: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and prediction of a task's run. Raises InvalidInput with the faults of both."""
    errors: list[Fault] = []
    chosen: dict[str, Any] = {}
    predicted: dict[str, Any] = {}
    try:
        chosen = check_task_params(job, kind, drawn, params)
    except InvalidInput as exc:
        errors += exc.errors
    try:
        predicted = check_prediction(kind, drawn, prediction)
    except InvalidInput as exc:
        errors += exc.errors
    if errors:
        raise InvalidInput(errors)
    return chosen, predicted


def check_task_params(job: Job, kind: TaskKind, drawn: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """The learner's values of the open parameters over those that the instance has drawn."""
    if not isinstance(values, dict):
        raise InvalidInput([("/params", "must be an object")])
    known = job.params.model_fields
    locked = [
        (f"/params/{name}", "is set by this task" if name in known else "is not a parameter here")
        for name in values
        if name not in kind.open_parameters
    ]
    if locked:
        raise InvalidInput(locked)
    return check(job.params, {**drawn, **values}, at="/params")


def check_prediction(kind: TaskKind, drawn: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """The prediction; the drawn parameters are the context in which the model may check it."""
    if values is None:
        raise InvalidInput([("/prediction", "commit a prediction before the run")])
    return check(kind.prediction, values, at="/prediction", context={"params": dict(drawn)})
