"""What a run's GPU time went to, and what it cost."""

import json

import pytest

from simworkers.agents.pictures.cost_figure import draw_cost
from simworkers.agents.pictures.figures import draw
from tests.simworkers.agents.figure_scenes import (
    figures,
    report,
    with_metrics,
)

__all__ = ["figures", "report"]  # fixtures


def test_the_shares_of_gpu_time_add_up_to_all_of_it(figures):
    shares = [row["value"] for row in figures["cost"].table if row["unit"] == "%"]
    assert sum(shares) == pytest.approx(100, abs=1e-2)


def test_every_row_of_the_table_is_one_number_with_its_unit(report, figures):
    table = figures["cost"].table
    assert len(table) == 2 * len(report.metrics["policies"]) + len(report.metrics["gpu_seconds"])
    assert all(row.keys() == {"quantity", "of", "value", "unit"} for row in table)
    assert not [row for row in table if None in row.values()]


def test_the_caption_says_what_a_million_output_tokens_bring_and_how_many_requests_were_lost(report):
    metrics = with_metrics(
        report, input_tokens=2680, output_tokens=10, usd_per_million=54.0, completed_share=0.8225
    )
    caption = draw(report.model_copy(update={"metrics": metrics}))["cost"].caption
    assert "output tokens, each with 268 input tokens, cost 54.00 USD. Only 82.2% of its requests" in caption


def test_idle_time_is_hatched_and_has_no_colour(figures):
    spec = figures["cost"].spec
    hatching = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "rule")
    idle = next(row["value"] for row in figures["cost"].table if row["of"] == "idle")
    assert len(hatching["data"]["values"]) == pytest.approx(idle / 1.8, abs=1.01)
    coloured = next(layer for layer in spec["layer"] if "color" in layer["encoding"])
    assert "idle" not in {row["kind"] for row in coloured["data"]["values"]}


def test_gpus_that_cost_nothing_are_not_said_to_have_answered_nothing(report):
    free = {"usd_per_million": 0.0, "usd_per_session": 0.0}
    rows = [row | free for row in report.metrics["policies"]]
    for policies in (rows, []):
        metrics = with_metrics(report, policies=policies, **free)
        spec, _ = draw_cost(metrics, report.params | {"gpu_hour_usd": 0.0})
        assert spec["title"]["text"] == "GPUs cost nothing here, and so does all that they serve"
        assert "no output" not in json.dumps(spec)


def test_a_policy_without_outputs_has_no_price_and_stands_last(report):
    rows = [
        row | {"usd_per_session": price, "tokens_per_gpu_s": rate}
        for row, price, rate in zip(
            report.metrics["policies"][:3], (20.0, 40.0, 30.0), (0.0, 1.0, 2.0), strict=True
        )
    ]
    spec, table = draw_cost(with_metrics(report, policies=rows), report.params)
    priced = [row["of"] for row in table if row["quantity"] == "price of a session"]
    assert priced == [rows[n]["policy"].replace("_", " ") for n in (2, 1)]
    boxes = next(layer for layer in spec["layer"] if "color" in layer["encoding"])["data"]["values"]
    (lowest,) = (box for box in boxes if box["says"] == "no output")
    assert lowest["to"] == 0 and lowest["bottom"] == min(box["bottom"] for box in boxes if box["bottom"])
    assert spec["title"]["text"].startswith("A session costs 30.00 USD")


def test_where_rows_have_no_sessions_their_output_is_priced_and_no_session(report):
    rows = [row | {"usd_per_session": 0.0} for row in report.metrics["policies"]]
    spec, table = draw_cost(with_metrics(report, policies=rows, usd_per_session=0.0), report.params)
    assert spec["title"]["text"].startswith("A million output tokens cost")
    assert "session" not in str(spec["title"])
    assert "price of a session" not in {row["quantity"] for row in table}
