"""The explore sweep: every point is a run, and the shape is as documented."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from simworkers import job_entries
from simworkers.catalog import engine_version
from simworkers.jobs import SweepData
from simworkers.multimodal import sweep as sweep_module
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.simulate import simulate
from simworkers.multimodal.sweep import GRID, MEASURED, SCENE, SEED

COARSE: dict[str, Any] = {
    "client": ["jpeg", "normalised"],
    "identity": ["bytes", "client_id"],
    "kv_blocks": [64],
    "encoder_caching": [False, True],
}


def silent(_done, _total):
    pass


@pytest.fixture(scope="module")
def coarse():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "GRID", COARSE)
        told = []
        found = SweepData.model_validate(
            job_entries.run_sweep("multimodal-cache", lambda done, total: told.append((done, total)))
        )
    assert told[-1] == (8, 8)
    assert told == sorted(told)
    return found


def values_of(coarse, name):
    """[client, identity, kv_blocks, encoder_caching]"""
    return np.array(next(metric.values for metric in coarse.metrics if metric.name == name), dtype=object)


def test_axes_name_their_values_and_units(coarse):
    assert {axis.name: axis.values for axis in coarse.axes} == COARSE
    assert [axis.unit for axis in coarse.axes] == ["", "", "blocks", ""]


def test_every_metric_is_an_array_over_all_axes(coarse):
    assert tuple(metric.name for metric in coarse.metrics) == MEASURED
    for metric in coarse.metrics:
        assert np.shape(metric.values) == (2, 2, 1, 2), metric.name
        assert metric.unit and metric.description


def test_it_says_what_computed_it_and_what_all_points_share(coarse):
    assert coarse.engine_version == engine_version("multimodal-cache")
    assert coarse.params["gpu"] == SCENE["gpu"]
    assert not set(coarse.params) & set(COARSE)


@pytest.mark.parametrize("point", [(0, 0, 0, 0), (1, 1, 0, 1)])
def test_a_point_is_what_a_run_with_its_parameters_reports(coarse, point):
    values = {name: COARSE[name][index] for name, index in zip(COARSE, point, strict=True)}
    metrics = simulate(MultimodalParams.model_validate(SCENE | values), SEED, silent).metrics
    for metric in coarse.metrics:
        assert np.array(metric.values, dtype=object)[point] == metrics[metric.name], metric.name


def test_normalising_warms_turn_2_and_one_id_for_a_chat_mistakes_its_pictures(coarse):
    again, once = values_of(coarse, "ttft_turn2_us")[:, 0, 0, 0]
    assert once < again / 2
    assert (values_of(coarse, "wrong_pictures")[:, 0] == 0).all()
    assert (values_of(coarse, "wrong_pictures")[:, 1] > 0).all()


def test_the_published_grid_is_valid_and_small_enough():
    for values in product(*GRID.values()):
        MultimodalParams.model_validate(SCENE | dict(zip(GRID, values, strict=True)))
    points = np.prod([len(values) for values in GRID.values()])
    assert points * len(MEASURED) * 25 < 2**20  # a float64 takes at most 24 characters


def test_the_data_are_strict_json(coarse):
    json.dumps(coarse.model_dump(), allow_nan=False)
