"""What may be asked of a simulation process: run a job, prepare a task, draw figures, sweep a grid,
name its arithmetic.

Each takes JSON values and returns JSON values. They dump models as Python values, not in pydantic's JSON mode, which
turns a NaN inside a free-form dict into null: the caller must see it and refuse.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from simworkers import catalog, jobs, strict_json

Progress = Callable[[int, int], None]
Entry = Callable[..., Any]


class InvalidCall(Exception):
    """What was asked for cannot be run; the message is one `field: message` a line."""


def run_job(lab: str, params: dict[str, Any], seed: int, progress: Progress) -> Any:
    """Run a lab once and return its report. InvalidCall names each wrong field."""
    job = _job(lab)
    try:
        checked = strict_json.check(job.params, params)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'params'}: {e['msg']}" for e in error.errors()]
        raise InvalidCall("\n".join(lines)) from error
    try:
        return catalog.resolve(job.simulate)(checked, seed, progress).model_dump()
    except jobs.InvalidParameter as error:
        raise InvalidCall(str(error)) from error


def prepare_task(lab: str, kind: str, seed: int, progress: Progress) -> Any:
    """Draw a task's instance: a dumped PreparedInstance."""
    task = _job(lab).tasks.get(kind)
    if task is None:
        raise InvalidCall(f"kind: {lab} has no task {kind!r}")
    return catalog.resolve(task.prepare)(seed, progress).model_dump()


def draw_figures(lab: str, report: dict[str, Any], progress: Progress) -> Any:
    """Draw a report's figures: {name: dumped Figure}."""
    figures = catalog.resolve(_job(lab).draw)(jobs.Report.model_validate(report))
    return {name: figure.model_dump() for name, figure in figures.items()}


def run_sweep(lab: str, progress: Progress) -> Any:
    """Measure a lab's grid: a dumped SweepData."""
    job = _job(lab)
    if job.sweep is None:
        raise InvalidCall(f"lab: {lab} has no sweep")
    return catalog.resolve(job.sweep)(progress).model_dump()


def arithmetic(progress: Progress) -> dict[str, str]:
    """What decides a report's last bits on this machine, by the names that provenance uses."""
    import torch

    return {"torch": str(torch.__version__), "cpu_capability": torch.backends.cpu.get_cpu_capability()}


def _job(lab: str) -> jobs.Job:
    try:
        return catalog.get_job(lab)
    except catalog.UnknownLab as error:
        raise InvalidCall(f"lab: {error}") from error


ENTRIES: Mapping[str, Entry] = {
    "run_job": run_job,
    "prepare_task": prepare_task,
    "draw_figures": draw_figures,
    "run_sweep": run_sweep,
    "arithmetic": arithmetic,
}
