"""The explore sweep on a lab's page without script: one cut of the grid, chosen by selects."""

import importlib
from typing import Any

import numpy as np
import pytest
from django.test import Client

from labs.api.schemas import lab_schema
from labs.models import Lab, Sweep
from labs.views.sweeps import sweep_view
from quiz.models import Learner
from simworkers.catalog import engine_version, get_job, job_names

STEP_TIME = {"name": "step_time_us", "unit": "µs", "description": "", "values": []}
# skew (2) × step size (3) × EPLB (2): with EPLB the step is shorter from 64 tokens on where skewed, never where even.
VALUES = [[[10.0, 12.0], [20.0, 22.0], [30.0, 31.0]], [[10.0, 12.0], [20.0, 18.5], [30.0, 25.0]]]


def sweep_data(values: Any = VALUES) -> dict[str, Any]:
    return {
        "axes": [
            {"name": "skew_percent", "unit": "%", "values": [0, 60]},
            {"name": "tokens_per_step", "unit": "tokens", "values": [32, 64, 1280]},
            {"name": "eplb", "unit": "", "values": [False, True]},
        ],
        "lines": "eplb",
        "params": {"num_gpus": 4, "num_steps": 8, "chunk_tokens": 16},
        "metrics": [STEP_TIME | {"values": values}, {**STEP_TIME, "name": "speedup", "values": values}],
    }


@pytest.fixture
def browser(learner: Learner) -> Client:
    client = Client()
    client.force_login(learner)
    return client


def store(lab: Lab, **values: Any) -> None:
    Sweep.objects.create(lab=lab, engine_version=engine_version(lab.slug), **values)


def lab_page(browser: Client, query: str = "") -> str:
    return browser.get(f"/labs/moe-eplb/{query}").content.decode()


def test_the_first_look_has_the_sweep_computed_and_says_so(browser, lab, messages):
    assert "A worker measures it" in lab_page(browser)
    lab_page(browser)
    assert Sweep.objects.count() == 1


def test_a_sweep_that_failed_leaves_the_rest_of_the_page(browser, lab):
    store(lab, state="failed", tries=3, reason="a traceback")
    html = lab_page(browser)
    assert "It could not be measured" in html
    assert "a traceback" not in html
    assert "Parameters" in html


def test_the_query_chooses_the_cut_that_the_table_shows(browser, lab):
    store(lab, state="ready", data=sweep_data())
    html = lab_page(browser, "?skew_percent=1")
    assert '<option value="1" selected>60%</option>' in html
    assert 'data-x="64" data-line="true">18.5</td>' in html
    assert 'data-x="1280" data-line="false">30</td>' in html
    assert "from 64 tokens on, not yet at 32." in html


@pytest.mark.parametrize("chosen", ["2", "-1", "x", "", "99999"])
def test_a_value_that_is_none_starts_in_the_middle(chosen):
    view = sweep_view(sweep_data(), {"skew_percent": chosen})
    assert [choice.selected for choice in view.selects[0].choices] == [False, True]


@pytest.mark.parametrize(
    ("off_and_on", "words"),
    [
        ([[1, 2], [1, 2], [1, 2]], "nowhere on this grid"),
        ([[2, 1], [2, 1], [2, 1]], "at every size of this grid"),
        ([[2, 1], [1, 2], [2, 1]], "from 1,280 tokens on, not yet at 64"),
        ([[2, 1], [2, 1], [1, 1]], "at 2 of the 3 sizes of this grid, not at 1,280 tokens"),
        ([[1, 0.96], [22.164, 22.161], [1.333, 1.321]], "nowhere on this grid"),
        ([[1, 0.96], [1, 0.96], [1, 0.94]], "from 1,280 tokens on, not yet at 64"),
    ],
)
def test_where_the_lines_cross_is_said_in_words(off_and_on, words):
    view = sweep_view(sweep_data([off_and_on, off_and_on]), {})
    assert view.summary.startswith("With EPLB on, step time is more than 5% lower")
    assert words in view.summary


def policies_data(values: Any) -> dict[str, Any]:
    """values: [policy][KV blocks]."""
    return {
        "axes": [
            {"name": "policy", "unit": "", "values": ["round_robin", "sticky", "least_queue"]},
            {"name": "kv_blocks", "unit": "blocks", "values": [4000, 11_217]},
        ],
        "lines": "policy",
        "params": {"sessions": 24, "turns_percent": 25, "replicas": 4},
        "metrics": [{**STEP_TIME, "name": "ttft_p90_us", "values": values}],
    }


def test_lines_of_names_are_told_by_who_is_lowest_where_the_axis_begins_and_ends():
    view = sweep_view(policies_data([[5.0, 4.0], [1.0, 1.0], [1.06, 0.96]]), {})
    assert [name for _, name in view.lines] == ["round_robin", "sticky", "least_queue"]
    assert view.summary == (
        "TTFT p90 is lowest, or within 5% of that, with sticky at 4,000 blocks, with least_queue and sticky at 11,217."
    )


def test_a_sweep_says_in_what_its_scene_is_not_the_default_one(browser, lab):
    view = sweep_view(policies_data([[1.0, 1.0]] * 3), {}, lab_schema(get_job("agent-routing"), "parameters"))
    assert view.scene == [("Sessions", "24"), ("Turns", "25%")]
    store(lab, state="ready", data=sweep_data())
    assert "Other than by default, at every point: Chunk tokens: 16; Number of steps: 8." in lab_page(browser)


def test_the_sentence_keeps_an_abbreviation_in_capitals():
    data = sweep_data()
    data["metrics"][0]["name"] = "ttft_p90_us"
    assert sweep_view(data, {}).summary.startswith("With EPLB on, TTFT p90 is more")


def test_a_metric_is_called_as_on_the_page_of_a_run():
    data = sweep_data()
    data["metrics"][0] |= {"name": "tokens_per_gpu_s", "unit": "tokens/s"}
    view = sweep_view(data, {}, metrics=lab_schema(get_job("agent-routing"), "metrics"))
    assert [head.label for head in view.metrics] == ["Output tokens per GPU-second (tokens/s)"]


def test_the_drawn_axis_is_the_longest_one_of_numbers_and_only_shown_metrics_are_listed():
    view = sweep_view(sweep_data(), {})
    assert view.along == "Tokens per step"
    assert [head.label for head in view.metrics] == ["Step time (µs)"]
    assert [name for _, name in view.lines] == ["EPLB off", "EPLB on"]


@pytest.mark.parametrize("name", [name for name in job_names() if get_job(name).sweep])
def test_the_grid_of_every_lab_can_be_shown(name):
    module = importlib.import_module(str(get_job(name).sweep).partition(":")[0])
    units = get_job(name).params.model_json_schema()["properties"]
    values = np.zeros([len(values) for values in module.GRID.values()]).tolist()
    data = {
        "axes": [
            {"name": axis, "unit": units[axis]["unit"], "values": values}
            for axis, values in module.GRID.items()
        ],
        "lines": module.LINES,
        "metrics": [{"name": metric, "unit": "", "values": values} for metric in module.MEASURED],
    }
    view = sweep_view(data, {})
    assert view.metrics and len(view.rows) > 1 and len(view.lines) == len(module.GRID[module.LINES])
    assert {select.name for select in view.selects} < set(module.GRID)


def test_long_times_of_a_grid_are_told_in_seconds_all_of_them(browser, lab):
    data = sweep_data([[[50_000.0, 1.0]] * 3, [[40_000_000.0, 2_500_000.0]] * 3])
    assert [(head.label, head.divisor) for head in sweep_view(data, {}).metrics] == [("Step time (s)", 10**6)]
    store(lab, state="ready", data=data)
    html = lab_page(browser, "?skew_percent=0")
    assert 'data-divisor="1000000">Step time (s)</th>' in html
    assert 'data-x="64" data-line="false">0.05</td>' in html
