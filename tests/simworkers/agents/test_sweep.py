"""The explore sweep: every point is what a run would report, and the shape is as documented."""

import json
from dataclasses import replace
from typing import Any

import pytest

from simworkers.agents import sweep
from simworkers.agents.params import AgentParams
from simworkers.agents.scene import build_scene
from simworkers.agents.serving.cluster import simulate_cluster
from tests.simworkers.sweeps import (
    check_origin,
    check_point,
    check_published_grid,
    check_shape,
    sweep_over,
    values_of,
)

COARSE: dict[str, Any] = {
    "policy": ["round_robin", "sticky"],
    "kv_blocks": [4000, 11_217],
    "sessions_at_once": [24],
    "host_gb": [0, 200],
    "cache_outputs": [False, True],
}
# Metrics are arrays of [policy, kv_blocks, sessions_at_once, host_gb, cache_outputs].


@pytest.fixture(scope="module")
def coarse():
    return sweep_over("agent-routing", COARSE, steps=16)


def test_axes_name_their_values_and_units_and_every_metric_is_an_array_over_all_of_them(coarse):
    check_shape(coarse, COARSE)
    assert [axis.unit for axis in coarse.axes] == ["", "blocks", "sessions", "GB", ""]


def test_it_says_what_computed_it_and_what_all_points_share(coarse):
    check_origin(coarse)


@pytest.mark.parametrize("point", [(0, 0, 0, 0, 0), (1, 0, 0, 1, 1)])
def test_a_point_is_what_a_run_with_its_parameters_reports(coarse, point):
    check_point(coarse, point)


def test_going_where_the_session_was_finds_more_and_waits_less(coarse):
    for name, is_more in (("hit_rate", True), ("tokens_per_gpu_s", True), ("ttft_p90_us", False)):
        spread, sticky = values_of(coarse, name)
        assert ((sticky > spread) if is_more else (sticky < spread)).all(), name


def test_a_host_tier_makes_up_for_short_hbm_and_changes_little_where_it_is_long(coarse):
    hits = values_of(coarse, "hit_rate")[1, :, 0, :, 1].astype(float)  # sticky: [kv_blocks, host_gb]
    short, long = hits[:, 1] - hits[:, 0]
    assert short > 0.03
    assert 0 <= long < 0.01


def test_no_point_passes_its_ceiling(coarse):
    assert (values_of(coarse, "hit_rate") <= values_of(coarse, "hit_rate_ceiling")).all()


def test_the_published_grid_is_valid_and_small_enough():
    check_published_grid("agent-routing")


def test_the_most_kv_is_what_the_machine_has_and_the_least_still_serves_every_turn():
    blocks = sweep.GRID["kv_blocks"]
    scene = build_scene(AgentParams.model_validate(sweep.SCENE), sweep.SEED)
    assert max(blocks) == scene.setup.kv_blocks
    tight = replace(scene.setup, kv_blocks=min(blocks))
    assert simulate_cluster(scene.workload, tight).refused == []


def test_the_data_are_strict_json(coarse):
    json.dumps(coarse.model_dump(), allow_nan=False)
