"""Names → jobs: which labs exist, what they take and report, and where their code lives.

Imports pydantic and the standard library alone. A web process reads schemas from here; torch, numpy and the
drawing libraries load only when `resolve` is called for a function that needs them.
"""

import functools
import hashlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from simworkers.moe.handed_in import PlacementArtefact
from simworkers.moe.metrics import MoeMetrics
from simworkers.moe.params import MoeParams
from simworkers.moe.prediction import BalancePrediction, BreakEvenPrediction, PlacementPrediction

Progress = Callable[[int, int], None]  # (finished steps, total steps)


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
    """

    name: str
    prepare: str
    prediction: type[BaseModel]
    open_parameters: tuple[str, ...]
    references: str
    prediction_metrics: dict[str, str]
    artefact: type[BaseModel] | None = None


@dataclass(frozen=True)
class Job:
    """A lab. simulate: dotted, (params, seed, progress) → Report. draw: dotted, (report) → {name: Figure}.

    sweep: dotted, (progress) → SweepData, where the lab has a grid to explore.

    expected_seconds: of a run with these parameters, roughly, on one core; decides how runs are queued, nothing else.
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
    sweep: str | None = None


class PreparedInstance(BaseModel):
    """A drawn task: locked values (and the defaults of open ones), what the learner sees, the graded "
    "run's seed."""

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
    """A grid of runs, measured once. `params` are those that all points share."""

    lab: str
    engine_version: str
    seed: int
    params: dict[str, Any]
    axes: list[Axis]
    metrics: list[SweepMetric]


class UnknownLab(KeyError):
    """Asked for a lab that is not here."""

    def __str__(self) -> str:
        return str(self.args[0])


MOE_EPLB = Job(
    name="moe-eplb",
    title="Send tokens to experts",
    summary="Real text is routed to experts on several GPUs; one GPU becomes the straggler that all others "
    "wait for. "
    "Copy busy experts, place them anew, and see what balance costs in memory.",
    params=MoeParams,
    metrics=MoeMetrics,
    simulate="simworkers.moe.simulate:simulate",
    draw="simworkers.moe.figures:draw",
    figures=(
        FigureSpec(
            "gpu-tokens",
            "Tokens that each GPU receives, before and after balancing",
            "Token copies per GPU in one layer, over all measured steps. A red outline and ▼ mark the "
            "straggler; the dashed line is the mean, which no placement can move.",
        ),
        FigureSpec(
            "step-time",
            "Where a step's time goes on each GPU",
            "Modelled time of one step, split into expert compute, dispatch and combine over the links, "
            "and waiting at "
            "the barrier for the slowest GPU of each layer.",
        ),
        FigureSpec(
            "hbm-ledger",
            "What fills each GPU's memory",
            "HBM of each GPU over all MoE layers of the accounted model. Extra copies of experts take the "
            "room in "
            "which KV could live.",
        ),
        FigureSpec(
            "what-binds",
            "What binds the modelled time",
            "Share of all GPU time bound by each resource, before and after balancing. The shares of a row "
            "add up to one.",
        ),
        FigureSpec(
            "imbalance",
            "Imbalance over the steps",
            "Tokens of the busiest GPU ÷ mean, averaged over layers. The dotted rule is the sampling floor, "
            "what chance alone leaves; triangles mark rebalances.",
        ),
    ),
    tasks={
        "balance-hbm": TaskKind(
            name="balance-hbm",
            prepare="simworkers.moe.balance_task:prepare",
            prediction=BalancePrediction,
            open_parameters=(
                "eplb",
                "eplb_policy",
                "redundant_slots_per_gpu",
                "window_steps",
                "interval_steps",
            ),
            references="simworkers.moe.balance_task:references",
            prediction_metrics={
                "straggler_gpu": "straggler_gpu_before",
                "max_over_mean": "max_over_mean_before_mean",
            },
        ),
        "predict-straggler": TaskKind(
            name="predict-straggler",
            prepare="simworkers.moe.straggler_task:prepare",
            prediction=BalancePrediction,
            open_parameters=(),
            references="simworkers.moe.straggler_task:references",
            prediction_metrics={
                "straggler_gpu": "straggler_gpu_before",
                "max_over_mean": "max_over_mean_before_mean",
            },
        ),
        "place-it": TaskKind(
            name="place-it",
            prepare="simworkers.moe.placing_task:prepare",
            prediction=PlacementPrediction,
            open_parameters=(),
            references="simworkers.moe.placing_task:references",
            prediction_metrics={"max_over_mean": "max_over_mean_mean"},
            artefact=PlacementArtefact,
        ),
        "when-eplb-pays": TaskKind(
            name="when-eplb-pays",
            prepare="simworkers.moe.break_even_task:prepare",
            prediction=BreakEvenPrediction,
            open_parameters=(),
            references="simworkers.moe.break_even_task:references",
            prediction_metrics={"break_even_tokens": "break_even_tokens"},
        ),
    },
    expected_seconds=MoeParams.expected_seconds,
    sweep="simworkers.moe.sweep:sweep",
)

_JOBS = {job.name: job for job in (MOE_EPLB,)}

_ROOT = Path(__file__).parent
# What decides a lab's numbers. The catalogue stays out: a new lab must not age another lab's reports.
_SOURCES = {"moe-eplb": ("hardware.py", "rng.py", "text.py", "drawing.py", "corpora/*.txt", "moe/**/*")}


def job_names() -> tuple[str, ...]:
    """All labs, in catalogue order."""
    return tuple(_JOBS)


def get_job(name: str) -> Job:
    """The lab called `name`; UnknownLab otherwise."""
    try:
        return _JOBS[name]
    except KeyError:
        raise UnknownLab(f"there is no lab {name!r}; there are: {', '.join(_JOBS)}") from None


def _source_files(name: str) -> Iterator[Path]:
    for pattern in _SOURCES[name]:
        for path in sorted(_ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


@functools.cache
def engine_version(name: str) -> str:
    """First 16 hex digits of a SHA-256 over the lab's sources and data, names and lengths included."""
    get_job(name)
    digest = hashlib.sha256()
    for path in _source_files(name):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(_ROOT).as_posix()}:{len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def resolve(dotted: str) -> Callable[..., Any]:
    """The function behind "package.module:function", imported when asked for."""
    module, _, function = dotted.partition(":")
    found = getattr(importlib.import_module(module), function)
    assert callable(found), dotted
    return found  # type: ignore[no-any-return]
