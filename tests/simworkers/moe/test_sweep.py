"""The explore sweep: every point is a run, and the shape is as documented."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from simworkers import job_entries
from simworkers.catalog import engine_version
from simworkers.jobs import SweepData
from simworkers.moe import sweep as sweep_module
from simworkers.moe.job import MOE_EPLB
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate
from simworkers.moe.sweep import GRID, MEASURED, SCENE, SEED

COARSE: dict[str, Any] = {
    "skew_percent": [0, 100],
    "tokens_per_step": [64, 2048],
    "eplb": [False, True],
    "redundant_slots_per_gpu": [0, 2],
}


def silent(_done, _total):
    pass


@pytest.fixture(scope="module")
def coarse():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "GRID", COARSE)
        told = []
        found = SweepData.model_validate(
            job_entries.run_sweep("moe-eplb", lambda done, total: told.append((done, total)))
        )
    assert told[-1] == (4, 4)
    assert told == sorted(told)
    return found


def test_axes_name_their_values_and_units(coarse):
    assert {axis.name: axis.values for axis in coarse.axes} == COARSE
    assert [axis.unit for axis in coarse.axes] == ["%", "tokens", "", "slots"]


def test_every_metric_is_an_array_over_all_axes(coarse):
    assert tuple(metric.name for metric in coarse.metrics) == MEASURED
    for metric in coarse.metrics:
        assert np.shape(metric.values) == (2, 2, 2, 2), metric.name
        assert metric.unit


def test_it_says_what_computed_it_and_what_all_points_share(coarse):
    assert coarse.engine_version == engine_version("moe-eplb")
    assert coarse.params["chunk_tokens"] == SCENE["chunk_tokens"]
    assert not set(coarse.params) & set(COARSE)


@pytest.mark.parametrize("point", [(0, 0, 0, 0), (0, 1, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1), (1, 1, 0, 1)])
def test_a_point_is_what_a_run_with_its_parameters_reports(coarse, point):
    values = {name: COARSE[name][index] for name, index in zip(COARSE, point, strict=True)}
    metrics = simulate(MoeParams(**SCENE, **values), SEED, silent).metrics
    for metric in coarse.metrics:
        assert np.array(metric.values, dtype=object)[point] == metrics[metric.name], metric.name


def test_the_published_grid_is_valid_and_small_enough():
    for values in product(*GRID.values()):
        MoeParams(**SCENE, **dict(zip(GRID, values, strict=True)))
    points = np.prod([len(values) for values in GRID.values()])
    assert points * len(MEASURED) * 25 < 2**20  # a float64 takes at most 24 characters


def test_the_data_are_strict_json(coarse):
    json.dumps(coarse.model_dump(), allow_nan=False)


def test_a_lab_without_a_grid_says_so(monkeypatch):
    from dataclasses import replace

    from simworkers import catalog

    monkeypatch.setitem(catalog._JOBS, "moe-eplb", replace(MOE_EPLB, sweep=None))
    with pytest.raises(job_entries.InvalidCall, match="moe-eplb has no sweep"):
        job_entries.run_sweep("moe-eplb", silent)
