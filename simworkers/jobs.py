"""What a lab is to its callers: a job with parameters, tasks and figures, and what it hands back.

Pydantic and the standard library alone, so that a web process can read schemas.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from simworkers.trace_summary import TraceSummary

Progress = Callable[[int, int], None]  # (finished steps, total steps)
Fault = tuple[str, str]  # (field of the parameters, what is wrong)


@dataclass(frozen=True)
class FigureSpec:
    """A figure that a lab draws, named before any run exists."""

    name: str
    title: str
    caption: str


@dataclass(frozen=True)
class TaskKind:
    """What a graded task of a lab needs beyond the lab itself.

    prepare: dotted "module:function", (seed, progress) → PreparedInstance.
    references: dotted "module:function", (prepared) → {"naive", "misconception", "expert", …: Submission}.
    open_parameters: what the learner may set; the instance locks all others.
    prediction_metrics: field of the prediction → name of the report metric that holds the truth.
    artefact: what is handed in beside parameters, if anything; its fields are parameters of the lab.
    draws_from_trace: whether prepare draws from the lab's default trace, where there is one; no other kind is given it.
    """

    name: str
    prepare: str
    prediction: type[BaseModel]
    open_parameters: tuple[str, ...]
    references: str
    prediction_metrics: dict[str, str]
    artefact: type[BaseModel] | None = None
    draws_from_trace: bool = False


@dataclass(frozen=True)
class Job:
    """A lab. simulate: dotted, (params, seed, progress) → Report. draw: dotted, (report) → {name: Figure}.

    sweep: dotted, (progress) → SweepData, where the lab has a grid to explore.

    sources: patterns under simworkers/ of the files that decide its numbers. The list of labs is none of them: a new
    lab must not age another lab's reports.
    essentials: the parameters that a form shows at once, about a dozen; it folds the others away, by their headings.
    internals: those that tasks set and hardly anybody else; last of all.
    expected_seconds: of a run with these parameters, roughly, on one core; decides how runs are queued, nothing else.
    trace_fault: why a run with these parameters cannot play a recorded trace, as far as its summary tells; None where
    it may. Asked before a run is queued; the run itself has the last word.
    """

    name: str
    title: str
    summary: str
    params: type[BaseModel]
    metrics: type[BaseModel]
    simulate: str
    draw: str
    figures: tuple[FigureSpec, ...]
    tasks: dict[str, TaskKind]
    expected_seconds: Callable[[Any], float]
    sources: tuple[str, ...]
    essentials: tuple[str, ...] = ()
    internals: tuple[str, ...] = ()
    sweep: str | None = None
    trace_fault: Callable[[Any, TraceSummary], Fault | None] = lambda params, summary: None


class InvalidParameter(ValueError):
    """A parameter that only the run could find wrong, as a picture that cannot be decoded: "field: message"."""


class PreparedInstance(BaseModel):
    """A drawn task: locked values (and the defaults of open ones), what the learner sees, the graded
    run's seed."""

    params: dict[str, Any]
    visible: dict[str, Any]
    seed: int


class Submission(BaseModel):
    """What a learner hands in: values of open parameters, the prediction made before the run, perhaps an artefact."""

    params: dict[str, Any]
    prediction: dict[str, Any]
    artefact: dict[str, Any] | None = None


class Invariant(BaseModel):
    """`broken_by_setting` is the lesson of a setting; `broken` is our bug and fails the run."""

    state: Literal["held", "broken_by_setting", "broken"]
    first_event: str | None = None


class Report(BaseModel):
    """What a run hands back. `provenance` (versions, device, wall seconds) stands outside equality."""

    lab: str
    engine_version: str
    seed: int
    params: dict[str, Any]
    metrics: dict[str, Any]
    invariants: dict[str, Invariant]
    provenance: dict[str, Any]


class Figure(BaseModel):
    """One drawn figure: Vega-Lite with its data inlined, the data as a table, and rendered pictures."""

    title: str
    caption: str
    spec: dict[str, Any]
    table: list[dict[str, Any]]
    svg_light: str
    svg_dark: str
    png_base64: str


class Axis(BaseModel):
    """One dimension of a sweep: a parameter, its unit and the values that it takes."""

    name: str
    unit: str
    values: list[bool | int | float | str]


class SweepMetric(BaseModel):
    """One metric at every point: lists in lists, one depth an axis, in the order of the axes."""

    name: str
    unit: str
    description: str
    values: list[Any]


class SweepData(BaseModel):
    """A grid of runs, measured once. `params` are those that all points share; `lines` is the axis whose values charts
    compare, a line each."""

    lab: str
    engine_version: str
    seed: int
    params: dict[str, Any]
    axes: list[Axis]
    lines: str
    metrics: list[SweepMetric]
