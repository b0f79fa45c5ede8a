"""Load and residency over time."""

import json

import pytest

from simworkers.agents.pictures.time_figures import draw_load, draw_residency
from tests.simworkers.agents.figure_scenes import (
    figures,
    report,
    with_metrics,
)

__all__ = ["figures", "report"]  # fixtures


def test_replicas_that_computed_nothing_still_have_a_row(report):
    loads = [
        {"time_s": time_s, "replica": replica, "uncached_tokens": 100 * (replica == 1)}
        for time_s in (0.0, 10.0)
        for replica in range(3)
    ]
    spec, table = draw_load(with_metrics(report, loads=loads, load_imbalance=3.0), report.params)
    assert len(table) == 6
    assert spec["title"]["text"] == "Replica 1 got 3.00 × as many uncached prompt tokens as the mean"
    assert "['replica 2', '0']" in spec["layer"][0]["encoding"]["y"]["axis"]["labelExpr"]


def test_the_axis_of_a_row_says_how_many_tokens_its_tallest_bar_may_have(report):
    loads = [
        {"time_s": time_s, "replica": replica, "uncached_tokens": 5500 + 100 * replica}
        for time_s in (0.0, 48.4)
        for replica in range(2)
    ]
    spec, _ = draw_load(with_metrics(report, loads=loads), report.params)
    bars = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "rect")
    assert "0.78 * datum.uncached_tokens / 6000" in json.dumps(bars["transform"])
    y = bars["encoding"]["y"]
    assert y["title"] == ["prompt tokens not found", "in cache, per 48.4 s"]
    assert y["axis"]["values"] == [0, 0.78, 1, 1.78]
    assert "abs(datum.value - 1.78) < 0.001 ? '6k'" in y["axis"]["labelExpr"]


def rules_of(spec):
    return [
        row for layer in spec["layer"] if layer["mark"].get("strokeDash") for row in layer["data"]["values"]
    ]


@pytest.mark.parametrize("drawer", [draw_load, draw_residency])
def test_an_incident_is_a_dotted_rule_where_it_begins_and_where_it_ends(report, drawer):
    end_s = max(row["time_s"] for row in report.metrics["residency"])
    params = report.params | {"incident": "fail", "incident_at_s": 10, "incident_for_s": 20}
    spec, _ = drawer(report.metrics, params)
    assert rules_of(spec) == [{"time_s": 10}, {"time_s": 30}]
    assert spec["title"]["subtitle"].endswith("dotted: replica 0 dies, and comes back")
    spec, _ = drawer(report.metrics, params | {"incident": "drain", "incident_for_s": 0})
    assert rules_of(spec) == [{"time_s": 10}]
    assert spec["title"]["subtitle"].endswith("dotted: replica 0 is drained")
    spec, _ = drawer(report.metrics, params | {"incident_for_s": int(end_s) + 10**6})
    assert rules_of(spec) == [{"time_s": 10}]
    assert spec["title"]["subtitle"].endswith("dotted: replica 0 dies")


@pytest.mark.parametrize("drawer", [draw_load, draw_residency])
def test_an_incident_after_the_end_has_no_rule_and_is_not_said_to_have_one(report, drawer):
    end_s = max(row["time_s"] for row in report.metrics["residency"])
    params = report.params | {"incident": "fail", "incident_at_s": int(end_s) + 10**6, "incident_for_s": 20}
    spec, _ = drawer(report.metrics, params)
    assert rules_of(spec) == []
    assert "dotted" not in spec["title"]["subtitle"]
    assert spec["title"]["subtitle"].endswith("; all had ended before replica 0 dies")


def test_tiers_that_are_not_there_have_no_line(report):
    with_both, _ = draw_residency(report.metrics, report.params)
    without, _ = draw_residency(report.metrics, report.params | {"host_gb": 0, "pool_gb": 0})
    assert [layer["mark"]["type"] for layer in with_both["layer"]] == ["area", "area", "line", "line"]
    assert [layer["mark"]["type"] for layer in without["layer"]] == ["area", "area"]


def test_full_hbm_is_the_headline(report):
    row = report.metrics["residency"][-1]
    rows = [row | {"held_share": 0.5, "cached_share": 0.4995}]
    spec, _ = draw_residency(with_metrics(report, residency=rows), report.params)
    assert spec["title"]["text"] == "HBM is full of KV: what comes in pushes something out"
