"""A lab's sweep over a small grid, and what holds of every lab's."""

import importlib
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simworkers import job_entries
from simworkers.catalog import engine_version, get_job, resolve
from simworkers.jobs import SweepData

Grid = dict[str, list[Any]]


def sweep_over(lab: str, grid: Grid, *, steps: int) -> SweepData:
    """Computed as a worker does. steps: of progress that it tells."""
    told: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_module(lab), "GRID", grid)
        found = job_entries.run_sweep(lab, lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (steps, steps)
    return SweepData.model_validate(found)


def values_of(data: SweepData, name: str) -> NDArray[Any]:
    """Of a metric, one dimension an axis."""
    return np.array(next(metric.values for metric in data.metrics if metric.name == name), dtype=object)


def check_shape(data: SweepData, grid: Grid) -> None:
    """Axes are those of the grid; every metric is an array over all of them."""
    assert {axis.name: axis.values for axis in data.axes} == grid
    assert tuple(metric.name for metric in data.metrics) == _module(data.lab).MEASURED
    for metric in data.metrics:
        assert np.shape(metric.values) == tuple(len(values) for values in grid.values()), metric.name
        assert metric.unit and metric.description, metric.name


def check_origin(data: SweepData) -> None:
    """What computed it, and what all points share: the scene, and no axis."""
    assert data.engine_version == engine_version(data.lab)
    assert not set(data.params) & {axis.name for axis in data.axes}
    scene = _module(data.lab).SCENE
    assert {name: data.params[name] for name in scene} == scene


def check_point(data: SweepData, point: tuple[int, ...]) -> None:
    """point: an index for each axis. It is what a run with its parameters reports."""
    job, module = get_job(data.lab), _module(data.lab)
    values = {axis.name: axis.values[index] for axis, index in zip(data.axes, point, strict=True)}
    params = job.params.model_validate(module.SCENE | values)
    metrics = resolve(job.simulate)(params, module.SEED, lambda done, total: None).metrics
    for metric in data.metrics:
        assert values_of(data, metric.name)[point] == metrics[metric.name], metric.name


def check_published_grid(lab: str) -> None:
    """Every point is valid, and all of them are small enough for a page."""
    module = _module(lab)
    for values in product(*module.GRID.values()):
        get_job(lab).params.model_validate(module.SCENE | dict(zip(module.GRID, values, strict=True)))
    points = np.prod([len(values) for values in module.GRID.values()])
    assert points * len(module.MEASURED) * 25 < 2**20  # a float64 takes at most 24 characters


def _module(lab: str) -> Any:
    return importlib.import_module(str(get_job(lab).sweep).partition(":")[0])
