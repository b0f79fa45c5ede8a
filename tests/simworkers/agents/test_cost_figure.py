"""What a run's GPU time went to, and what it cost."""

import json

import pytest

from simworkers.agents.pictures.cost_figure import draw_cost
from tests.simworkers.agents.figure_scenes import (
    figures,
    report,
    with_metrics,
)

__all__ = ["figures", "report"]  # fixtures


def test_the_shares_of_gpu_time_add_up_to_all_of_it(figures):
    shares = [row["share"] for row in figures["cost"].table if row["share"] is not None]
    assert sum(shares) == pytest.approx(1, abs=1e-4)


def test_idle_time_is_hatched_and_has_no_colour(figures):
    spec = figures["cost"].spec
    hatching = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "rule")
    idle = next(row["share"] for row in figures["cost"].table if row["gpu_time"] == "idle")
    assert len(hatching["data"]["values"]) == pytest.approx(idle / 0.018, abs=1.01)
    coloured = next(layer for layer in spec["layer"] if "color" in layer["encoding"])
    assert "idle" not in {row["kind"] for row in coloured["data"]["values"]}


def test_gpus_that_cost_nothing_are_not_said_to_have_answered_nothing(report):
    rows = [row | {"usd_per_million": 0.0} for row in report.metrics["policies"]]
    for policies in (rows, []):
        metrics = with_metrics(report, policies=policies, usd_per_million=0.0)
        spec, _ = draw_cost(metrics, report.params | {"gpu_hour_usd": 0.0})
        assert spec["title"]["text"] == "GPUs cost nothing here, so answers cost nothing"
        assert "no answer" not in json.dumps(spec)


def test_a_policy_without_answers_has_no_price_and_stands_last(report):
    rows = [
        row | {"usd_per_million": price, "tokens_per_gpu_s": price}
        for row, price in zip(report.metrics["policies"][:3], (0.0, 40.0, 30.0), strict=True)
    ]
    spec, table = draw_cost(with_metrics(report, policies=rows), report.params)
    names = [row["policy"] for row in table if row["policy"]]
    assert names == [rows[n]["policy"].replace("_", " ") for n in (2, 1, 0)]
    assert "no answer" in json.dumps(spec)
    assert spec["title"]["text"].startswith("A million output tokens cost 30.00 USD")
