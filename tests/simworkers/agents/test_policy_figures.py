"""Policies beside one another: hit rates, and throughput against interactivity."""

import re

import pytest

from simworkers.agents.job import AGENT_ROUTING
from simworkers.agents.pictures.cost_figure import draw_cost
from simworkers.agents.pictures.figure_parts import percent
from simworkers.agents.pictures.figures import draw
from simworkers.agents.pictures.hit_rate_figure import draw_hit_rate
from simworkers.agents.pictures.throughput_figure import draw_throughput
from tests.simworkers.agents.figure_scenes import SEVEN, curve, figures, report, report_of, with_metrics
from tests.simworkers.figures import words

__all__ = ["figures", "report"]  # fixtures


def test_the_best_policy_stands_first_and_the_ceiling_is_a_line(report, figures):
    table = figures["hit-rate-by-policy"].table
    rates = [row["hit_rate"] for row in table]
    assert rates == sorted(rates, reverse=True)
    assert len(table) == len(report.metrics["policies"])
    lines = [one for one in figures["hit-rate-by-policy"].spec["layer"] if one["mark"]["type"] == "rule"]
    assert {row["hit_rate_ceiling"] for row in table} == {round(report.metrics["hit_rate_ceiling"], 5)}
    assert lines[0]["data"]["values"] == [{"ceiling": round(report.metrics["hit_rate_ceiling"], 5)}]


def test_hit_rate_and_imbalance_stand_beside_each_name(report, figures):
    text = words(figures["hit-rate-by-policy"].svg_light)
    for row in figures["hit-rate-by-policy"].table:
        assert row["policy"] in text
        assert f"{percent(row['hit_rate'])}, {row['load_imbalance']:.2f}" in text


def test_without_comparison_the_runs_own_policy_is_drawn_alone():
    report = report_of("nobody is compared")
    _, hits = draw_hit_rate(report.metrics, report.params)
    assert [(row["policy"], row["hit_rate"]) for row in hits] == [
        ("round robin", round(report.metrics["hit_rate"], 5))
    ]
    spec, points = draw_throughput(report.metrics, report.params)
    assert [row["tokens_per_gpu_s"] for row in points] == [round(report.metrics["tokens_per_gpu_s"], 4)]
    assert spec["title"]["text"].startswith("round robin: ")


def test_a_run_that_is_compared_with_none_is_not_captioned_as_a_comparison(figures):
    alone = draw(report_of("nobody is compared"))
    for name in ("hit-rate-by-policy", "throughput-interactivity", "cost"):
        said = f"{alone[name].title} {alone[name].caption}"
        assert not re.search(r"policy|policies|Each point|same sessions", said)
        assert re.search(r"policy", f"{figures[name].title} {figures[name].caption}")
    catalogue = {figure.name: figure for figure in AGENT_ROUTING.figures}
    for name in ("load-by-replica", "kv-residency"):
        assert (alone[name].title, alone[name].caption) == (catalogue[name].title, catalogue[name].caption)


def test_policies_under_one_load_are_not_captioned_as_loads(report):
    curves = [curve(policy, 8, 50.0, 2.0 + n) for n, policy in enumerate(SEVEN)]
    figure = draw(report.model_copy(update={"metrics": with_metrics(report, curves=curves)}))[
        "throughput-interactivity"
    ]
    assert figure.caption.startswith("Each point is a policy under the same load")


def test_a_price_alone_has_no_bar_but_stands_in_the_title_and_the_table():
    report = report_of("nobody is compared")
    spec, table = draw_cost(report.metrics, report.params)
    boxes = next(layer for layer in spec["layer"] if "color" in layer["encoding"])["data"]["values"]
    assert {box["bottom"] for box in boxes} == {0}
    price = report.metrics["usd_per_session"]
    assert spec["title"]["text"] == f"A session costs {price:,.2f} USD"
    assert table[0]["of"] == "round robin" and table[0]["value"] == pytest.approx(price, abs=1e-4)


def test_hit_rates_that_are_all_the_same_are_not_called_a_range():
    report = report_of("everything is refused")
    spec, _ = draw_hit_rate(report.metrics, report.params)
    assert spec["title"]["text"] == "Every policy finds 0.0% of all prompt tokens"


def test_policies_that_are_equally_good_are_not_named_alone(report):
    row = report.metrics["policies"][0]
    rates = {
        "round_robin": 0.2,
        "least_queue": 0.30001,
        "sticky": 0.9,
        "sticky_spill": 0.90002,
        "weighted": 0.9,
    }
    rows = [row | {"policy": policy, "hit_rate": rate} for policy, rate in rates.items()]
    for count, said in (
        (5, "From 20.0% under round robin to 90.0% under sticky spill and 2 others"),
        (4, "From 20.0% under round robin to 90.0% under sticky spill and sticky"),
        (3, "From 20.0% under round robin to 90.0% under sticky"),
    ):
        spec, _ = draw_hit_rate(with_metrics(report, policies=rows[:count]), report.params)
        assert spec["title"]["text"] == said


def test_the_headline_names_the_best_load_that_keeps_the_floor(report):
    curves = [curve("sticky", 4, 60.0, 5.0), curve("sticky", 8, 25.0, 9.0), curve("sticky", 16, 12.0, 14.0)]
    spec, _ = draw_throughput(with_metrics(report, curves=curves), report.params)
    assert spec["title"]["text"] == "Best above the floor: sticky with 8 at once, 9.0 tokens a GPU-second"


def test_a_floor_that_nobody_keeps_is_said(report):
    curves = [curve("sticky", 4, 6.0, 5.0), curve("round_robin", 4, 5.0, 5.0)]
    spec, table = draw_throughput(with_metrics(report, curves=curves), report.params)
    assert spec["title"]["text"] == "No load keeps the floor of 20 tokens/s"
    assert [row["floor_tokens_per_s"] for row in table] == [20, 20]


def test_a_load_that_loses_requests_is_not_the_best(report):
    curves = [curve("sticky", 4, 60.0, 5.0, 0.99), curve("sticky", 8, 55.0, 9.0, 0.98999)]
    spec, table = draw_throughput(with_metrics(report, curves=curves), report.params)
    assert spec["title"]["text"].startswith("Best above the floor: sticky with 4 at once")
    assert [row["completed_share"] for row in table] == [0.99, 0.98999]


def test_a_floor_that_is_kept_only_by_losing_requests_is_said(report):
    curves = [curve("sticky", 4, 60.0, 5.0, 0.18), curve("sticky", 8, 5.0, 9.0)]
    spec, _ = draw_throughput(with_metrics(report, curves=curves), report.params)
    assert spec["title"]["text"] == "No load keeps the floor of 20 tokens/s and completes 99% of its requests"


@pytest.mark.parametrize(
    ("interactivity", "completed", "said"),
    [
        (20.0, 0.99, "the floor kept"),
        (19.0, 1.0, "the floor not kept"),
        (60.0, 0.18, "but only 18.0% of the requests completed"),
    ],
)
def test_a_run_that_is_compared_with_none_says_whether_it_met_the_goal(
    report, interactivity, completed, said
):
    metrics = with_metrics(
        report, curves=[], policies=[], interactivity_p10=interactivity, completed_share=completed
    )
    spec, _ = draw_throughput(metrics, report.params)
    assert spec["title"]["text"].endswith(f" tokens a GPU-second, {said}")


def test_only_loads_that_were_played_are_marked_inside_the_axes(report):
    """Names stand in the legend: a symbol beside a name would be taken for a point."""
    curves = [curve(policy, load, 80.0 - load, 2.0 + n) for n, policy in enumerate(SEVEN) for load in (4, 8)]
    spec, table = draw_throughput(with_metrics(report, curves=curves), report.params)
    drawn = [layer["data"]["values"] for layer in spec["layer"] if "floor" not in layer["data"]["values"][0]]
    played = {(row["interactivity_p10"], row["tokens_per_gpu_s"]) for row in table}
    for rows in drawn:
        assert {(row["interactivity_p10"], row["tokens_per_gpu_s"]) for row in rows} <= played
    text = words(draw(report)["throughput-interactivity"].svg_light)
    assert all(row["policy"].replace("_", " ") in text for row in report.metrics["policies"])


def test_numbers_stand_where_they_touch_nothing_and_wait_for_a_picture_that_is_wide_enough(report):
    curves = [
        curve("round_robin", load, interactivity, rate)
        for load, interactivity, rate in ((2, 80.0, 2.0), (4, 60.0, 8.0), (8, 44.0, 9.9), (16, 40.0, 10.0))
    ]
    spec, _ = draw_throughput(with_metrics(report, curves=curves), report.params)
    (numbers,) = (layer for layer in spec["layer"] if layer.get("mark", {}).get("type") == "text")
    rows = {row["sessions_at_once"]: row for row in numbers["data"]["values"]}
    assert {load: row["least_width"] for load, row in rows.items()} == dict.fromkeys((2, 4, 8, 16), 240)
    assert rows[16]["dy"] < 0 < rows[8]["dy"]  # close together: one above the line, one below it
    assert (numbers["mark"]["dx"], numbers["mark"]["dy"]) == ({"expr": "datum.dx"}, {"expr": "datum.dy"})
    assert numbers["encoding"]["text"]["condition"]["test"] == "width >= datum.least_width"


def test_seven_policies_look_different(report):
    curves = [curve(policy, 8, 50.0, 2.0 + n) for n, policy in enumerate(SEVEN)]
    spec, _ = draw_throughput(with_metrics(report, curves=curves), report.params | {"policy": "weighted"})
    (curves_layer,) = (layer for layer in spec["layer"] if "layer" in layer)
    looks = next(layer["encoding"] for layer in curves_layer["layer"] if "shape" in layer["encoding"])
    assert len(set(looks["color"]["scale"]["range"])) == len(set(looks["shape"]["scale"]["range"])) == 7
