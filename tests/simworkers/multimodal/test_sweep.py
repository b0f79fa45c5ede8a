"""The explore sweep: every point is a run, and the shape is as documented."""

import json
from typing import Any

import pytest

from tests.simworkers.sweeps import (
    check_origin,
    check_point,
    check_published_grid,
    check_shape,
    sweep_over,
    values_of,
)

COARSE: dict[str, Any] = {
    "client": ["jpeg", "normalised"],
    "identity": ["bytes", "client_id"],
    "kv_blocks": [64],
    "encoder_caching": [False, True],
}
# Metrics are arrays of [client, identity, kv_blocks, encoder_caching].


@pytest.fixture(scope="module")
def coarse():
    return sweep_over("multimodal-cache", COARSE, steps=8)


def test_axes_name_their_values_and_units_and_every_metric_is_an_array_over_all_of_them(coarse):
    check_shape(coarse, COARSE)
    assert [axis.unit for axis in coarse.axes] == ["", "", "blocks", ""]


def test_it_says_what_computed_it_and_what_all_points_share(coarse):
    check_origin(coarse)


@pytest.mark.parametrize("point", [(0, 0, 0, 0), (1, 1, 0, 1)])
def test_a_point_is_what_a_run_with_its_parameters_reports(coarse, point):
    check_point(coarse, point)


def test_normalising_warms_turn_2_and_one_id_for_a_chat_mistakes_its_pictures(coarse):
    again, once = values_of(coarse, "ttft_turn2_us")[:, 0, 0, 0]
    assert once < again / 2
    assert (values_of(coarse, "wrong_pictures")[:, 0] == 0).all()
    assert (values_of(coarse, "wrong_pictures")[:, 1] > 0).all()


def test_the_published_grid_is_valid_and_small_enough():
    check_published_grid("multimodal-cache")


def test_the_data_are_strict_json(coarse):
    json.dumps(coarse.model_dump(), allow_nan=False)
