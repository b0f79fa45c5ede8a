"""What a run's page makes of its report: tables of figures, and what was judged."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from labs.api.schemas import lab_schema
from labs.metric_table import metric_rows
from labs.models import Figure, Lab, Run
from labs.views.judged import criteria_of, is_beside, judged_names
from labs.views.lost import lost_requests
from labs.views.results import show_figure
from simworkers import catalog

METRICS = lab_schema(catalog.get_job("agent-routing"), "metrics")["properties"]


@pytest.mark.parametrize(
    ("name", "value", "head", "cell"),
    [
        ("time_s", 12.5, "Time (s)", "12.5"),
        ("interactivity_p10", 212.0, "Interactivity p10 (tokens/s)", "212"),
        ("uncached_tokens", 129_230, "Uncached tokens", "129,230"),
        ("hit_rate", 0.8847, "Hit rate", "88.47%"),
        ("held_share", 0.0121, "Held share", "1.21%"),
        ("load_imbalance", 3.54, "Load imbalance", "3.54"),
        ("us", 153.8, "µs", "153.8"),
        ("replica", 3, "Replica", "3"),
    ],
)
def test_a_figures_table_says_the_unit_of_a_column_once(name, value, head, cell):
    shown = show_figure(Figure(name="some", table=[{name: value}]), Run(), METRICS)
    assert shown.columns == [(head, True)]
    assert shown.rows == [[(cell, True)]]


def sheet(**values: float) -> dict[str, Any]:
    """Of one criterion that read these metrics."""
    row = {
        "name": "only", "title": "The only one", "kind": "bands", "share": "1", "points": "10", "earned": "10",
        "passed": True, "blocked_by": [], "feedback": "", "values": values,
    }  # fmt: skip
    return {"criteria": [row], "earned": "10", "points": "10"}


def test_a_criterion_tells_the_numbers_that_it_read_as_the_table_of_metrics_does():
    judged = sheet(ttft_mean_us=1_341_000.0, anchor_low=2_000_000.0, keeps_floor=1.0)
    (criterion,) = criteria_of(judged, METRICS, {"scored_as": "survival"})
    assert criterion.read == [
        ("TTFT, mean", "1.341 s"),
        ("Anchor that earns nothing", "2 s"),
        ("Keeps floor", "yes"),
    ]


def test_a_number_that_the_lab_reports_no_longer_is_told_by_its_name():
    (criterion,) = criteria_of(sheet(gone_since=2.0), METRICS, {})
    assert criterion.read == [("Gone since", "2")]


def test_a_run_that_nobody_judged_has_no_criteria():
    assert (criteria_of(None, METRICS, {}), judged_names(None), is_beside(set(), METRICS)) == (
        [],
        set(),
        False,
    )


@pytest.mark.parametrize(
    ("judged", "beside"),
    [
        ({"pp_wins_ratio", "pp_loses_ratio"}, True),
        ({"search_tokens_per_gpu_s", "anchor_low"}, True),
        ({"ttft_mean_us", "tiers_best_ttft_us"}, False),
    ],
)
def test_what_was_judged_was_played_beside_the_run_where_no_number_of_its_own_was_read(judged, beside):
    assert is_beside(judged, METRICS) == beside


def test_judged_metrics_come_first_and_a_row_is_judged_if_its_baseline_is():
    schema = lab_schema(catalog.get_job("moe-eplb"), "metrics")
    found = {"step_time_before_us": 2.0, "step_time_us": 1.0, "speedup": 2.0, "rebalances": 2}
    rows = metric_rows(schema, found, {}, {"rebalances", "step_time_before_us"})
    assert [(row.label, row.is_judged) for row in rows] == [
        ("Step time", True),
        ("Rebalances", True),
        ("Speedup", False),
    ]


@pytest.mark.parametrize(
    ("refused", "completed", "said"),
    [
        (101, 468, "101 of 569 requests were refused. TTFT counts the horizon, 86,400 s, for each;"),
        (0, 568, "1 of 569 requests was unfinished at the horizon. TTFT counts"),
        (2, 560, "2 of 569 requests were refused and 7 of 569 requests were unfinished at the horizon."),
    ],
)
def test_requests_that_came_to_no_answer_are_told(refused, completed, said):
    found = {"requests": 569, "refused_requests": refused, "completed_requests": completed}
    assert lost_requests(found, {"horizon_s": 86_400}).startswith(said)


@pytest.mark.parametrize(
    "found", [{"requests": 569, "refused_requests": 0, "completed_requests": 569}, {"speedup": 2.0}]
)
def test_a_run_that_lost_no_request_says_nothing_of_it(found):
    assert lost_requests(found, {"horizon_s": 86_400}) == ""


@pytest.fixture
def page(client: Client, learner: Any, lab: Lab) -> Any:
    """The page of a graded run of the agent lab with these metrics, of which these were judged."""

    def html(metrics: dict[str, Any], judged: dict[str, float]) -> str:
        run = Run.objects.create(
            lab=Lab.objects.get(slug="agent-routing"),
            learner=learner,
            params={},
            seed=1,
            state=Run.State.GRADED,
            engine_version="",
            report={"metrics": metrics, "invariants": {}},
            sheet=sheet(**judged),
            score=1,
        )
        client.force_login(learner)
        return client.get(reverse("run-page", args=[run.public_id])).content.decode()

    return html


PROBED = {"hit_rate": 0.4922, "share_links": 0.42, "pp_wins_ratio": 1.258, "pp_loses_ratio": 0.76}


def test_a_page_opens_with_what_was_judged_where_that_was_played_beside_the_run(page):
    html = page(PROBED, {"pp_wins_ratio": 1.258, "pp_loses_ratio": 0.76})
    order = ["Pipeline ÷ tensor, second probe", "played beside this run", "What binds?", "49.22%"]
    places = [html.index(words) for words in order]
    assert places == sorted(places)
    assert (
        html.count('<span class="badge accent">Judged</span>') == 3
    )  # two metrics, and in what is said of the mark


def test_a_page_whose_own_numbers_were_judged_opens_with_what_binds(page):
    html = page(PROBED, {"hit_rate": 0.4922})
    assert "played beside this run" not in html
    assert html.index("What binds?") < html.index("Under each criterion stand the numbers that it read")


def test_a_page_tells_of_refused_requests_before_any_number(page):
    lost = {"requests": 569, "refused_requests": 101, "completed_requests": 468, "share_links": 0.5}
    html = page(PROBED | lost, {"hit_rate": 0.4922})
    order = ["101 of 569 requests were refused", "What binds?", "49.22%"]
    assert [html.index(words) for words in order] == sorted(html.index(words) for words in order)
