"""What may be asked of a simulation process: run a job, prepare a task, draw figures, sweep a grid, read a trace,
name its arithmetic.

Figures are drawn from the report alone, and a sweep is everybody's: neither is given files.

Each takes JSON values and returns JSON values. They dump models as Python values, not in pydantic's JSON mode, which
turns a NaN inside a free-form dict into null: the caller must see it and refuse.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simworkers import catalog, inputs, jobs, strict_json
from simworkers.trace_summary import summarise

Progress = Callable[[int, int], None]
Entry = Callable[..., Any]


class InvalidCall(Exception):
    """What was asked for cannot be run; the message is one `field: message` a line."""


def run_job(
    lab: str, params: dict[str, Any], seed: int, progress: Progress, files: Mapping[str, str] | None = None
) -> Any:
    """Run a lab once and return its report. files: hash → path of what its parameters name, for `inputs.open_input`.

    InvalidCall names each wrong field.
    """
    job = _job(lab)
    try:
        checked = strict_json.check(job.params, params)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc'])) or 'params'}: {e['msg']}" for e in error.errors()]
        raise InvalidCall("\n".join(lines)) from error
    try:
        with inputs.given(files or {}):
            return catalog.resolve(job.simulate)(checked, seed, progress).model_dump()
    except jobs.InvalidParameter as error:
        raise InvalidCall(str(error)) from error


def prepare_task(
    lab: str, kind: str, seed: int, progress: Progress, files: Mapping[str, str] | None = None
) -> Any:
    """Draw a task's instance: a dumped PreparedInstance. files: as in run_job."""
    task = _job(lab).tasks.get(kind)
    if task is None:
        raise InvalidCall(f"kind: {lab} has no task {kind!r}")
    with inputs.given(files or {}):
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


def inspect_trace(path: str, progress: Progress) -> Any:
    """Read a recorded trace: a dumped TraceSummary. InvalidCall where nothing of it can be used."""
    from simworkers.agents.traffic.traces import (  # numpy, which the other entries may not need
        BadTrace,
        read_trace,
    )

    started_s = time.perf_counter()
    try:
        with Path(path).open("rb") as file:
            trace = read_trace(file)
    except BadTrace as error:
        raise InvalidCall(str(error)) from error
    return summarise(trace, time.perf_counter() - started_s).model_dump()


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
    "inspect_trace": inspect_trace,
    "arithmetic": arithmetic,
}
