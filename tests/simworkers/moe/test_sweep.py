"""The explore sweep: every point is a run, and the shape is as documented."""

import json
from dataclasses import replace
from typing import Any

import pytest

from simworkers import catalog, job_entries
from simworkers.moe.job import MOE_EPLB
from tests.simworkers.sweeps import check_origin, check_point, check_published_grid, check_shape, sweep_over

COARSE: dict[str, Any] = {
    "skew_percent": [0, 100],
    "tokens_per_step": [64, 2048],
    "eplb": [False, True],
    "redundant_slots_per_gpu": [0, 2],
}


@pytest.fixture(scope="module")
def coarse():
    return sweep_over("moe-eplb", COARSE, steps=4)


def test_axes_name_their_values_and_units_and_every_metric_is_an_array_over_all_of_them(coarse):
    check_shape(coarse, COARSE)
    assert [axis.unit for axis in coarse.axes] == ["%", "tokens", "", "slots"]


def test_it_says_what_computed_it_and_what_all_points_share(coarse):
    check_origin(coarse)


@pytest.mark.parametrize("point", [(0, 0, 0, 0), (0, 1, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1), (1, 1, 0, 1)])
def test_a_point_is_what_a_run_with_its_parameters_reports(coarse, point):
    check_point(coarse, point)


def test_the_published_grid_is_valid_and_small_enough():
    check_published_grid("moe-eplb")


def test_the_data_are_strict_json(coarse):
    json.dumps(coarse.model_dump(), allow_nan=False)


def test_a_lab_without_a_grid_says_so(monkeypatch):
    monkeypatch.setitem(catalog._JOBS, "moe-eplb", replace(MOE_EPLB, sweep=None))
    with pytest.raises(job_entries.InvalidCall, match="moe-eplb has no sweep"):
        job_entries.run_sweep("moe-eplb", lambda done, total: None)
