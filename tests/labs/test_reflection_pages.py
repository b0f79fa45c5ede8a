"""Looking back on a run by plain forms: the explanation and the staff points, and what if one thing changed."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from labs.models import Explanation, Figure, Run, TaskAttempt
from labs.services import submit_run
from labs.views.binding import SHARES_OF, what_binds
from labs.views.differences import FIRST, change_text
from quiz.models import Learner
from simworkers import catalog
from tests.labs.conftest import execute, make_learner, report_for
from tests.labs.test_pages import html_of, page_of
from tests.labs.test_services import submit

POINTS = ["Copies split one expert's tokens.", "Each copy costs an expert in every layer."]


@pytest.fixture
def browser(learner: Learner) -> Client:
    client = Client()
    client.force_login(learner)
    return client


@pytest.fixture
def graded(attempt: TaskAttempt, simulation: Any) -> Run:
    attempt.task.staff_points = POINTS
    attempt.task.save()
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    return run


def post(client: Client, run: Run, name: str, data: dict[str, Any], query: str = "") -> Any:
    return client.post(reverse(name, args=[run.public_id]) + query, data)


def explain(client: Client, run: Run, text: str = "One expert was too hot.") -> Any:
    return post(client, run, "run-explain", {"text": text})


def plain(html: str) -> str:
    return html.replace("&#x27;", "'")


# Explain ------------------------------------------------------------------------------------------


def test_no_staff_point_is_in_the_page_before_the_explanation_stands(browser, graded):
    before = plain(html_of(browser, graded))
    assert "Your explanation" in before
    assert [point for point in POINTS if point in before] == []
    explain(browser, graded)
    after = plain(html_of(browser, graded))
    assert [point for point in POINTS if point not in after] == []
    assert "One expert was too hot." in after
    assert "Your explanation" not in after


def test_a_refused_explanation_keeps_what_was_typed_and_shows_no_point(browser, graded):
    text = "x" * 10_001
    reply = explain(browser, graded, text)
    html = plain(reply.content.decode())
    assert reply.status_code == 400
    assert text in html
    assert re.search(r'id="explain-text-error">[^<]*10001 characters', html)
    assert POINTS[0] not in html


def test_line_ends_that_a_form_adds_do_not_count_against_the_limit(browser, graded):
    explain(browser, graded, "a\r\n" * 5000)
    assert Explanation.objects.get().text == "a\n" * 5000


def test_a_second_explanation_is_refused_with_the_first_one_standing(browser, graded):
    explain(browser, graded)
    reply = browser.post(reverse("run-explain", args=[graded.public_id]), {"text": "I knew it."}, follow=True)
    assert "stands already" in reply.content.decode()
    assert Explanation.objects.get().text == "One expert was too hot."


def test_ticks_are_stored_in_the_order_of_the_points(browser, graded):
    explain(browser, graded)
    post(browser, graded, "run-self-check", {"made": ["1"]})
    assert Explanation.objects.get().self_check == [False, True]
    assert "You ticked 1 of 2" in html_of(browser, graded)
    post(browser, graded, "run-self-check", {})
    assert Explanation.objects.get().self_check == [False, False]


def test_what_staff_ticked_and_wrote_takes_the_place_of_the_form(browser, graded):
    explain(browser, graded)
    post(browser, graded, "run-self-check", {"made": ["0", "1"]})
    Explanation.objects.update(staff_check=[True, False], staff_comment="The cost is not in it.")
    html = html_of(browser, graded)
    assert "it makes 1 of 2 points" in html
    assert "You ticked it as made." in html
    assert "The cost is not in it." in html
    assert 'name="made"' not in html


def test_markup_in_an_explanation_is_text(browser, graded):
    explain(browser, graded, "<script>alert(1)</script>")
    assert "<script>alert" not in html_of(browser, graded)


def test_a_free_run_and_a_run_without_a_grade_ask_for_no_explanation(browser, lab, learner, attempt):
    run = submit_run(learner=learner, lab=lab, params={})
    assert "Your explanation" not in html_of(browser, run)
    assert "What if one thing changed" not in html_of(browser, run)


def test_reflections_of_somebody_elses_run_do_not_exist(graded, offering):
    other = Client()
    other.force_login(make_learner("eve", offering))
    for name in ("run-explain", "run-self-check", "run-what-if"):
        assert post(other, graded, name, {"text": "x"}).status_code == 404
    assert other.get(reverse("run-what-if", args=[graded.public_id])).status_code == 404


# What if one thing changed ------------------------------------------------------------------------


def test_the_second_step_shows_the_field_of_the_chosen_parameter_as_the_run_had_it(browser, graded):
    url = reverse("run-what-if", args=[graded.public_id])
    first, second = (browser.get(url + query).content.decode() for query in ("", "?parameter=window_steps"))
    assert "/params/window_steps" not in first
    assert re.search(r'name="/params/window_steps"[^>]*value="4"[^>]*min="1"[^>]*max="64"', second)
    assert '<option value="window_steps" selected>' in second


def test_a_switch_starts_the_other_way(browser, graded):
    html = browser.get(reverse("run-what-if", args=[graded.public_id]) + "?parameter=eplb").content.decode()
    box = re.search(r'<input type="checkbox"[^>]*name="/params/eplb"[^>]*>', html)
    assert box is not None
    assert (" checked" in box[0]) is not graded.params["eplb"]


def test_a_parameter_that_is_none_brings_no_field(browser, graded):
    html = browser.get(
        reverse("run-what-if", args=[graded.public_id]) + "?parameter=nonsense"
    ).content.decode()
    assert "Run the variation" not in html


@pytest.mark.parametrize(
    ("value", "words"), [("0", "greater than or equal to 1"), ("4", "same as in the run"), ("x", "integer")]
)
def test_a_refused_variation_says_so_beside_its_field(browser, graded, value, words):
    reply = post(browser, graded, "run-what-if", {"/params/window_steps": value}, "?parameter=window_steps")
    html = reply.content.decode()
    error = re.search(r'id="params-window_steps-error">([^<]*)<', html)
    assert reply.status_code == 400
    assert error is not None and words in error[1]
    assert Run.objects.count() == 1


@pytest.fixture
def varied(browser, graded, simulation) -> Run:
    reply = post(browser, graded, "run-what-if", {"/params/window_steps": "9"}, "?parameter=window_steps")
    run = Run.objects.latest("pk")
    assert reply["Location"] == page_of(run)
    simulation(report_for(run, max_over_mean_mean=1.25, step_time_us=900.0, straggler_gpu=3))
    execute(run)
    run.refresh_from_db()
    return run


def test_a_varied_run_names_the_alteration_and_what_it_changed_the_judged_first(browser, graded, varied):
    html = html_of(browser, varied)
    assert re.search(r"Window steps: <strong>4 <.*?> 9</strong>", html)
    table = html[html.index("What changed most") : html.index("Unchanged:")]
    assert table.index("Max over mean, mean") < table.index("Step time")
    assert "−0.25 (−16.7%)" in table
    assert "+900 µs" in table
    assert "GPU 3" in table
    assert page_of(graded) in html


def test_the_original_lists_its_variations(browser, graded, varied):
    html = html_of(browser, graded)
    assert f'<a href="{page_of(varied)}">Window steps: 4 → 9</a>' in html


def test_figures_of_both_runs_stand_side_by_side_under_ids_of_their_own(browser, graded, varied):
    for run in (graded, varied):
        Figure.objects.create(
            run=run, name="gpu-tokens", position=0, title="Tokens", spec={}, table=[], png=b"",
            svg_light="<svg/>", svg_dark="<svg/>",
        )  # fmt: skip
    html = html_of(browser, varied)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    for run in (graded, varied):
        assert reverse("api-run-figure", args=[run.public_id, "gpu-tokens"]) in html
    assert 'class="pair"' in html


def test_a_variation_whose_original_is_gone_is_shown_like_a_free_run(browser, graded, varied):
    Run.objects.filter(pk=varied.pk).update(varied_from=None)
    assert "What changed most" not in html_of(browser, varied)


def test_more_changes_than_fit_are_folded_away(browser, graded, varied):
    report = report_for(varied)
    numbers = [name for name, value in report["metrics"].items() if value == 0.0 and type(value) is float]
    assert len(numbers) > FIRST
    report["metrics"].update(dict.fromkeys(numbers, 7.0))
    Run.objects.filter(pk=varied.pk).update(report=report)
    assert f"Changed too: {len(numbers) - FIRST} metrics" in html_of(browser, varied)


@pytest.mark.parametrize(
    ("before", "after", "unit", "text"),
    [
        (2000.0, 1500.0, "µs", "−500 µs (−25%)"),
        (0, 2, "count", "+2"),
        (0.1, 0.25, "fraction", "+15 points"),
        (1, 3, "GPU index", "other"),
        (0, 1, "0 or 1", "no → yes"),
        (1.0, 0.0, "0 or 1", "yes → no"),
        (5, 5, "count", "same"),
        (10**9, 3 * 10**9, "bytes", "+2 GB (+200%)"),
        (1000.0, 1000.1, "µs", "+0.1 µs"),
        (-2.0, -1.0, "ratio", "+1 (+50%)"),
    ],
)
def test_a_change_has_its_sign_its_unit_and_what_it_is_relative_to(before, after, unit, text):
    assert change_text(before, after, unit) == text


# What binds ---------------------------------------------------------------------------------------


def test_what_binds_is_a_sentence_with_the_largest_share_first():
    shares = {
        "share_links": 0.431,
        "share_barrier_wait": 0.28,
        "share_flops": 0.2896,
        "share_kv_capacity": 0.0,
    }
    before = {f"{name}_before": value for name, value in shares.items()} | {"share_barrier_wait_before": 0.6}
    found = what_binds("moe-eplb", shares | before)
    assert found is not None
    assert found.sentence == "Of all GPU time, links bind 43%; FLOPs 29%, barrier waiting 28%."
    assert found.before == "Before: barrier waiting 60%, links 43%, FLOPs 29%."


def test_a_report_without_shares_says_nothing_about_what_binds():
    assert what_binds("moe-eplb", {"step_time_us": 3.0}) is None


def test_a_run_that_served_nothing_is_bound_by_nothing():
    assert what_binds("agent-routing", {"share_flops": 0.0, "share_links": 0.0, "busy_share": 0.0}) is None


def test_shares_of_what_requests_take_stand_beside_how_long_gpus_idle():
    found = what_binds(
        "agent-routing", {"share_hbm_bandwidth": 0.74, "share_queue": 0.26, "busy_share": 0.284}
    )
    assert found is not None
    assert found.sentence == (
        "Of the time that requests take, HBM bandwidth binds 74%; queueing 26%. GPUs are idle 72% of the run."
    )


@pytest.mark.parametrize("name", catalog.job_names())
def test_what_shares_are_of_is_said_of_every_lab(name):
    assert name in SHARES_OF


def test_the_page_of_a_run_says_what_binds(browser, graded):
    assert graded.report is not None
    graded.report["metrics"] |= {"share_links": 0.7, "share_flops": 0.3}
    graded.save()
    assert "Of all GPU time, links bind 70%; FLOPs 30%." in html_of(browser, graded)
