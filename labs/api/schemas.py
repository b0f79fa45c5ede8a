"""JSON Schemas of a lab, for forms and charts of any front end."""

from typing import Any

from simworkers.jobs import Job, Report, TaskKind

LAB_SCHEMAS = ("parameters", "metrics", "report")
TASK_SCHEMAS = ("parameters", "prediction", "artefact")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def lab_schema(job: Job, name: str) -> dict[str, Any]:
    """`parameters`, `metrics` or `report`. Raises KeyError for another name."""
    if name == "report":
        schema = Report.model_json_schema()
        definitions = schema.setdefault("$defs", {})
        for part, model in (("params", job.params), ("metrics", job.metrics)):
            inner = model.model_json_schema(ref_template="#/$defs/{model}")
            definitions |= inner.pop("$defs", {})
            schema["properties"][part] = inner
    else:
        schema = {"parameters": job.params, "metrics": job.metrics}[name].model_json_schema()
    return {"$schema": DIALECT, "$id": f"urn:staffloop:schema:v1:{job.name}:{name}", **schema}


def open_parameter_schema(job: Job, kind: TaskKind) -> dict[str, Any]:
    """The parameter schema, cut down to what the learner of this task may set."""
    schema = lab_schema(job, "parameters")
    schema["$id"] = f"urn:staffloop:schema:v1:{job.name}:{kind.name}:open-parameters"
    schema["properties"] = {name: schema["properties"][name] for name in kind.open_parameters}
    schema["required"] = [name for name in schema.get("required", []) if name in kind.open_parameters]
    return schema


def prediction_schema(kind: TaskKind) -> dict[str, Any]:
    return {
        "$schema": DIALECT,
        "$id": f"urn:staffloop:schema:v1:{kind.name}:prediction",
        **kind.prediction.model_json_schema(),
    }


def artefact_schema(kind: TaskKind) -> dict[str, Any] | None:
    if kind.artefact is None:
        return None
    return {
        "$schema": DIALECT,
        "$id": f"urn:staffloop:schema:v1:{kind.name}:artefact",
        **kind.artefact.model_json_schema(),
    }


def task_schemas(job: Job, kind: TaskKind) -> dict[str, dict[str, Any]]:
    """Those of TASK_SCHEMAS that this kind of task has."""
    found = {"parameters": open_parameter_schema(job, kind), "prediction": prediction_schema(kind)}
    artefact = artefact_schema(kind)
    return found if artefact is None else {**found, "artefact": artefact}
