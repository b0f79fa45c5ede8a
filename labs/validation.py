"""A submission checked by the lab's own pydantic models; every fault points at its field."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from quiz.errors import InvalidInput, pointer_part
from simworkers import strict_json
from simworkers.jobs import Job, TaskKind

Fault = tuple[str, str]  # JSON pointer into the request's body, sentence


def check(
    model: type[BaseModel], values: Any, *, at: str, context: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`values`, of the types that the JSON Schema names, with defaults filled in, as JSON.

    Raises InvalidInput with pointers below `at`.
    """
    if not isinstance(values, dict):
        raise InvalidInput([(at, "must be an object")])
    try:
        parsed = strict_json.check(model, values, context=context)
    except ValidationError as exc:
        raise InvalidInput(list(faults(exc, at))) from exc
    except RecursionError as exc:
        raise InvalidInput([(at, "is nested too deeply")]) from exc
    return parsed.model_dump(mode="json")


def faults(exc: ValidationError, at: str) -> Iterable[Fault]:
    for error in exc.errors():
        place = "".join(f"/{pointer_part(part)}" for part in error["loc"])
        text = "is not a parameter here" if error["type"] == "extra_forbidden" else error["msg"]
        yield at + place, text.removeprefix("Value error, ")


def check_params(job: Job, values: Any) -> dict[str, Any]:
    """Parameters of a free run."""
    return check(job.params, values, at="/params")


@dataclass(frozen=True)
class Checked:
    """A submission to a task: all parameters (drawn, chosen, and those that the artefact carries), as JSON."""

    params: dict[str, Any]
    prediction: dict[str, Any]
    artefact: dict[str, Any] | None


def check_submission(
    job: Job, kind: TaskKind, drawn: Mapping[str, Any], params: Any, prediction: Any, artefact: Any = None
) -> Checked:
    """Raises InvalidInput with the faults of all three parts."""
    errors: list[Fault] = []

    def collect(check: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
        try:
            return check() or {}
        except InvalidInput as exc:
            errors.extend(exc.errors)
            return {}

    handed_in = collect(lambda: check_artefact(kind, drawn, artefact))
    chosen = collect(lambda: check_task_params(job, kind, {**drawn, **handed_in}, params))
    predicted = collect(lambda: check_prediction(kind, drawn, prediction))
    if errors:
        raise InvalidInput(errors)
    return Checked(chosen, predicted, handed_in or None)


def check_task_params(job: Job, kind: TaskKind, drawn: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """The learner's values of the open parameters over those that the instance has drawn."""
    if not isinstance(values, dict):
        raise InvalidInput([("/params", "must be an object")])
    known = job.params.model_fields
    locked = [
        (
            f"/params/{pointer_part(name)}",
            "is set by this task" if name in known else "is not a parameter here",
        )
        for name in values
        if name not in kind.open_parameters
    ]
    if locked:
        raise InvalidInput(locked)
    return check(job.params, {**drawn, **values}, at="/params")


def check_artefact(kind: TaskKind, drawn: Mapping[str, Any], values: Any) -> dict[str, Any] | None:
    """The artefact; its fields are parameters of the lab that only this task hands in this way."""
    if kind.artefact is None:
        if values is not None:
            raise InvalidInput([("/artefact", "this task asks for none")])
        return None
    if values is None:
        raise InvalidInput([("/artefact", "is what this task asks for")])
    return check(kind.artefact, values, at="/artefact", context={"params": dict(drawn)})


def check_prediction(kind: TaskKind, drawn: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """The prediction; the drawn parameters are the context in which the model may check it."""
    if values is None:
        raise InvalidInput([("/prediction", "commit a prediction before the run")])
    return check(kind.prediction, values, at="/prediction", context={"params": dict(drawn)})
