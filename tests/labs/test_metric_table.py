"""The table of a report's metrics: what shares a row, and what a run did not compute."""

from typing import Any

import pytest

from labs.api.schemas import lab_schema
from labs.labels import label
from labs.metric_table import metric_rows
from simworkers import catalog


def test_a_metric_and_the_same_before_share_a_row():
    schema = lab_schema(catalog.get_job("moe-eplb"), "metrics")
    rows = metric_rows(schema, {"step_time_before_us": 2000.0, "step_time_us": 1000.0, "rebalances": 2})
    assert [(row.label, row.before, row.after) for row in rows] == [
        ("Step time", "2 ms", "1 ms"),
        ("Rebalances", "", "2"),
    ]


def test_a_metric_is_called_what_its_schema_says_where_the_name_says_too_little():
    schema = lab_schema(catalog.get_job("agent-routing"), "metrics")
    rows = metric_rows(schema, {"tokens_per_gpu_s": 12.5, "hit_rate": 0.5})
    assert [(row.label, row.after) for row in rows] == [
        ("Hit rate", "50%"),
        ("Output tokens per GPU-second", "12.5 tokens/s"),
    ]


@pytest.mark.parametrize(
    ("scored_as", "told"),
    [("survival", ["1.2 s", "0 µs"]), ("throughput", ["1,200,000 tokens/s", "0 tokens/s"])],
)
def test_the_unit_of_an_anchor_is_that_of_what_the_run_is_scored_by(scored_as, told):
    schema = lab_schema(catalog.get_job("agent-routing"), "metrics")
    found = {"anchor_low": 1_200_000.0, "anchor_high": 0.0}
    assert [row.after for row in metric_rows(schema, found, {"scored_as": scored_as})] == told


@pytest.mark.parametrize("name", catalog.job_names())
def test_no_two_metrics_of_a_lab_are_called_the_same(name):
    schema = lab_schema(catalog.get_job(name), "metrics")
    called = [label(field, part) for field, part in schema["properties"].items()]
    assert len(called) == len(set(called))


@pytest.fixture
def free_run() -> dict[str, Any]:
    """Metrics of a small run that searches, scores and compares nothing."""
    job = catalog.get_job("agent-routing")
    params = job.params.model_validate(
        {"sessions": 2, "turns_percent": 5, "context_percent": 10, "compare_policies": False}
    )
    report: dict[str, Any] = catalog.resolve(job.simulate)(params, 0, lambda done, total: None).model_dump()
    return dict(report["metrics"])


def test_what_a_run_did_not_compute_is_told_apart(free_run):
    schema = lab_schema(catalog.get_job("agent-routing"), "metrics")
    rows = metric_rows(schema, free_run)
    computed = {row.label for row in rows if row.is_computed}
    aside = {row.label for row in rows if not row.is_computed}
    assert {"Hit rate", "Refused requests", "Preemptions"} <= computed
    assert {
        "Anchor that earns nothing",
        "Searched load",
        "Within memory budget",
        "Pipeline ÷ tensor, first probe",
    } <= aside
    parts = {label(name, field) for name, field in schema["properties"].items() if "part" in field}
    assert aside == parts - {"Price of a session"}  # which only rows without sessions lack


def test_a_part_of_which_one_number_tells_something_is_shown_whole(free_run):
    found = free_run | {"search_sessions": 0, "search_bound_tokens_per_gpu_s": 12.5}
    rows = metric_rows(lab_schema(catalog.get_job("agent-routing"), "metrics"), found)
    assert "Searched load" in {row.label for row in rows if row.is_computed}
