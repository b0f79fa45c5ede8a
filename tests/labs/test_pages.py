"""Pages of the labs without a browser, and numbers as people read them."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from labs.api.schemas import lab_schema
from labs.models import Figure, Lab, LabTask, Run, TaskAttempt
from labs.presentation import figure_text, heat, labelled, scenario, significant
from labs.services import open_attempt, submit_run
from simworkers import catalog
from tests.labs.conftest import PREDICTION, execute, make_learner, report_for

VENDOR = Path(__file__).resolve().parents[2] / "labs" / "static" / "labs" / "vendor"


@pytest.fixture
def browser(learner) -> Client:
    client = Client()
    client.force_login(learner)
    return client


def page_of(row: Run | TaskAttempt) -> str:
    return reverse("run-page" if isinstance(row, Run) else "task-attempt-page", args=[row.public_id])


def html_of(browser: Client, row: Run | TaskAttempt) -> str:
    return browser.get(page_of(row)).content.decode()


@pytest.fixture
def run(learner, attempt) -> Run:
    return submit_run(
        learner=learner, lab=attempt.task.lab, params={}, prediction=PREDICTION, task_attempt=attempt
    )


@pytest.fixture
def graded(run, simulation) -> Run:
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    assert run.state == Run.State.GRADED
    return run


def test_the_task_page_shows_how_it_is_judged_and_what_is_left(browser, task: LabTask):
    html = browser.get("/labs/classes/open/tasks/moe-balance-hbm/").content.decode()
    assert "3 of 3 graded attempts left" in html
    for criterion in task.parsed_rubric().criteria:
        assert criterion.title in html
    assert "Counts only with: Extra copies fit the HBM budget" in html
    assert "Open attempt" in html


def test_an_unpublished_task_does_not_exist(browser, task: LabTask):
    LabTask.objects.update(published=False)
    assert browser.get("/labs/classes/open/tasks/moe-balance-hbm/").status_code == 404


def test_somebody_who_has_not_joined_is_told_to_join(task: LabTask, django_user_model):
    client = Client()
    client.force_login(django_user_model.objects.create_user(username="grace"))
    page = client.get("/labs/classes/open/tasks/moe-balance-hbm/").content.decode()
    assert "Join the class" in page
    assert "Open attempt" not in page
    refused = client.post("/labs/classes/open/tasks/moe-balance-hbm/", {"kind": "graded"}, follow=True)
    assert "not enrolled" in refused.content.decode()


def test_the_page_of_a_graded_attempt_never_shows_its_seed(browser, task, offering, learner):
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    TaskAttempt.objects.filter(pk=attempt.pk).update(
        state="open",
        instance={"params": catalog.get_job("moe-eplb").params().model_dump(), "seed": 987654321},
        engine_version=catalog.engine_version("moe-eplb"),
    )
    html = html_of(browser, attempt)
    assert str(attempt.draw_seed) not in html
    assert "987654321" not in html


def test_a_practice_attempt_names_its_public_seed(browser, task, offering, learner):
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering, practice=True, seed=7)
    assert "public seed 7" in html_of(browser, attempt)


def test_an_attempt_being_prepared_says_so_and_reloads_itself_without_script(
    browser, task, offering, learner
):
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    html = html_of(browser, attempt)
    assert "A worker is drawing your instance" in html
    assert '<noscript><meta http-equiv="refresh"' in html


def test_an_attempt_that_could_not_be_prepared_is_called_our_fault(browser, attempt):
    TaskAttempt.objects.update(state="failed", instance=None, error="a traceback")
    html = html_of(browser, attempt)
    assert "That is our fault" in html
    assert "a traceback" not in html


@pytest.mark.parametrize("allowed", [1, 3])
def test_an_attempt_from_before_an_upgrade_of_the_lab_leads_to_a_new_one(browser, task, attempt, allowed):
    LabTask.objects.update(attempts_allowed=allowed)
    TaskAttempt.objects.update(engine_version="older")
    shown = html_of(browser, attempt)
    assert "The lab was renewed after this attempt was drawn." in shown and "Your prediction" not in shown
    url = "/labs/classes/open/tasks/moe-balance-hbm/"
    shown = browser.get(url).content.decode()
    assert f"{allowed} of {allowed} graded attempts left" in shown
    assert "Open attempt" in shown and "Go on with attempt" not in shown
    browser.post(url, {"kind": "graded"})
    assert "This attempt does not count" in html_of(browser, attempt)
    assert "Go on with attempt 2" in browser.get(url).content.decode()


def test_attempts_and_runs_of_somebody_else_do_not_exist(offering, attempt, run):
    client = Client()
    client.force_login(make_learner("grace", offering))
    assert client.get(page_of(attempt)).status_code == 404
    assert client.get(page_of(run)).status_code == 404
    assert client.post(reverse("run-cancel", args=[run.public_id])).status_code == 404
    run.refresh_from_db()
    assert run.state == Run.State.QUEUED


def test_a_form_post_without_script_queues_a_run(browser, attempt):
    form = {"/prediction/straggler_gpu": "1", "/prediction/max_over_mean": "1.5", "/params/eplb": "on"}
    reply = browser.post(page_of(attempt), form)
    run = Run.objects.get()
    assert reply["Location"] == page_of(run)
    assert run.params["eplb"] is True
    assert run.prediction == {"straggler_gpu": 1, "max_over_mean": 1.5}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("/params/window_steps", "many", "valid integer"),
        ("/params/window_steps", "0", "greater than or equal to 1"),
        ("/prediction/max_over_mean", "nan", "finite"),
        ("/prediction/straggler_gpu", "", "required"),
    ],
)
def test_a_refused_form_names_the_field_and_keeps_what_was_typed(browser, attempt, field, value, words):
    form = {
        "/prediction/straggler_gpu": "1",
        "/prediction/max_over_mean": "1.25",
        "/params/interval_steps": "9",
    }
    reply = browser.post(page_of(attempt), form | {field: value})
    html = reply.content.decode()
    place = field.strip("/").replace("/", "-")
    assert reply.status_code == 400
    assert f'<a href="#{place}">' in html
    error = re.search(rf'id="{place}-error">([^<]*)<', html)
    assert error is not None
    assert words in error[1]
    assert 'value="9"' in html
    assert not Run.objects.exists()


def test_a_locked_prediction_is_shown_and_sent_again_as_it_was(browser, attempt, run):
    browser.post(reverse("run-cancel", args=[run.public_id]))
    assert "Your prediction was locked" in html_of(browser, attempt)
    browser.post(page_of(attempt), {"/prediction/straggler_gpu": "3"})
    assert [one.prediction for one in Run.objects.order_by("pk")] == [PREDICTION, PREDICTION]


def test_a_queued_run_can_be_cancelled_and_the_attempt_is_still_there(browser, run):
    assert "Cancel the run" in html_of(browser, run)
    browser.post(reverse("run-cancel", args=[run.public_id]))
    html = html_of(browser, run)
    assert "The run was cancelled" in html
    assert "The attempt is still yours" in html


def test_cancelling_what_has_ended_says_so(browser, graded):
    reply = browser.post(reverse("run-cancel", args=[graded.public_id]), follow=True)
    assert "already" in reply.content.decode()


def test_a_failed_run_says_why_and_that_it_is_no_zero(browser, run):
    Run.objects.update(state="failed", reason="The simulation failed.")
    html = html_of(browser, run)
    assert "The simulation failed." in html
    assert "That is no zero" in html


def test_a_graded_run_shows_criteria_prediction_metrics_invariants_and_origin(browser, graded):
    html = html_of(browser, graded)
    assert graded.sheet is not None
    assert [row["title"] for row in graded.sheet["criteria"] if row["title"] not in html] == []
    for words in ("You predicted", "Sampling floor", "Tokens conserved", graded.engine_version, "AVX2"):
        assert words in html
    assert reverse("api-run-report", args=[graded.public_id]) in html
    assert "The figures are being drawn" in html


@pytest.mark.parametrize(("share", "shown"), [("0", "Missed"), ("0.0", "Missed"), ("0.5", "50%")])
def test_a_required_criterion_that_earned_nothing_is_missed(browser, graded, share, shown):
    row = {"kind": "banded", "points": "0.00", "share": share, "passed": False, "blocked_by": []}
    graded.sheet["criteria"] = [graded.sheet["criteria"][0] | row]
    graded.save(update_fields=["sheet"])
    result = re.search(
        r"<td><span class=\"badge (?:bad|warn)\">.*?</span> (.*?)</span></td>", html_of(browser, graded)
    )
    assert result is not None and result[1] in (shown, f"<span>{shown}</span>")


def test_a_figure_is_a_picture_for_both_schemes_a_table_and_downloads(browser, graded):
    table = [{"gpu": index, "tokens": 1000 * index} for index in range(300)]
    Figure.objects.create(
        run=graded, name="gpu-tokens", position=0, title="Tokens", spec={}, table=table, png=b"",
        svg_light="<svg/>", svg_dark="<svg/>",
    )  # fmt: skip
    html = html_of(browser, graded)
    source = reverse("api-run-figure", args=[graded.public_id, "gpu-tokens"])
    for query in ("svg&amp;theme=dark", "svg&amp;theme=light", "csv", "png", "json"):
        assert f"{source}?format={query}" in html
    assert "199,000" in html
    assert "The first 200 of 300 rows" in html


def test_a_free_run_takes_any_parameters_and_a_seed(browser, lab):
    browser.post("/labs/moe-eplb/", {"/params/num_steps": "3", "/seed": "12"})
    run = Run.objects.get()
    assert (run.params["num_steps"], run.seed, run.task_attempt) == (3, 12, None)
    again = browser.get(f"/labs/moe-eplb/?from={run.public_id}").content.decode()
    assert re.search(r'id="params-num_steps"[^>]*value="3"', again)
    assert re.search(r'id="seed"[^>]*value="12"', again)


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", str(2**63)])
def test_a_seed_that_is_none_is_refused(browser, lab, seed):
    assert browser.post("/labs/moe-eplb/", {"/seed": seed}).status_code == 400


@pytest.mark.parametrize("seed", ["-1", "x", "1.5", str(2**63), pytest.param("9" * 5000, id="5000 digits")])
def test_a_practice_seed_that_is_none_is_refused_and_opens_nothing(browser, task, seed):
    page = "/labs/classes/open/tasks/moe-balance-hbm/"
    answer = browser.post(page, {"kind": "practice", "seed": seed}, follow=True)
    assert "seed: must be a whole number from 0 to 9223372036854775807" in answer.content.decode()
    assert not TaskAttempt.objects.exists()


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_practice_draws_from_the_seed_that_was_asked_for(browser, task, seed):
    browser.post("/labs/classes/open/tasks/moe-balance-hbm/", {"kind": "practice", "seed": str(seed)})
    assert TaskAttempt.objects.get().draw_seed == seed


@pytest.mark.parametrize("earlier", ["nonsense", "00000000-0000-0000-0000-000000000000"])
def test_an_earlier_run_that_is_not_there_leaves_the_defaults(browser, lab, earlier):
    assert browser.get(f"/labs/moe-eplb/?from={earlier}").status_code == 200


# Numbers as people read them -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2550136832, "bytes", "2.55 GB"),
        (999, "bytes", "999 bytes"),
        (999_949, "bytes", "999.9 kB"),
        (999_950, "bytes", "1 MB"),
        (999_951_000, "bytes", "1 GB"),
        (-999_999_999_999, "bytes", "-1 TB"),
        (0.0342, "fraction", "3.42%"),
        (3, "GPU index", "GPU 3"),
        (3.0, "GPU index", "GPU 3"),
        (1, "0 or 1", "yes"),
        (1.26999, "ratio", "1.27"),
        (0, "µs", "0 µs"),
        (999.9, "µs", "999.9 µs"),
        (999.97, "µs", "1 ms"),
        (-2090.4, "µs", "-2.09 ms"),
        (66_330, "µs", "66.33 ms"),
        (999_940, "µs", "999.9 ms"),
        (999_960, "µs", "1 s"),
        (129_400, "µs", "129.4 ms"),
        (16_231_137, "µs", "16.23 s"),
        (40_000_000, "µs", "40 s"),
        (1, "sessions", "1 session"),
        (1.0, "GPUs", "1 GPU"),
        (1, "s", "1 s"),
        (1, "tokens/s", "1 tokens/s"),
        (2, "stages", "2 stages"),
        (60, "%", "60%"),
        (True, "", "yes"),
        (None, "", "not measured"),
        ("code", "", "code"),
    ],
)
def test_a_value_is_shown_with_its_unit(value: Any, unit: str, text: str):
    assert figure_text(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1234567, "1,234,567"), (0.00012, "0.00012"), (1e-9, "below 0.0001")]
)
def test_numbers_are_never_written_as_exponents(value, text):
    assert significant(value) == text


def test_a_unit_that_the_label_names_is_not_said_twice():
    assert labelled("num_experts", 8, "experts") == ("Number of experts", "8")
    assert labelled("tokens_per_step", 8192, "tokens") == ("Tokens per step", "8,192")
    assert labelled("expert_bytes", 44040192, "bytes") == ("Expert bytes", "44.04 MB")


def test_a_scenario_sorts_values_into_facts_series_and_tables():
    drawn = scenario(
        {"num_gpus": 4, "mix_percent": {"chat": 90.0, "code": 10.0}, "observed_load": [[1, 2], [3, 8]]},
        lab_schema(catalog.get_job("moe-eplb"), "parameters"),
    )
    assert [(fact.label, fact.value) for fact in drawn.facts] == [("Number of GPUs", "4")]
    assert [(share.label, share.text, share.percent) for share in drawn.series[0].shares] == [
        ("Chat", "90%", 100),
        ("Code", "10%", 11.11),
    ]
    assert drawn.tables[0].columns == ["Expert 0", "Expert 1"]
    assert [cell.heat for _, cells in drawn.tables[0].rows for cell in cells] == [1, 2, 3, 8]


def test_no_load_is_not_shaded_and_a_little_is():
    assert (heat(0, 10), heat(0.01, 10), heat(10, 10), heat(0, 0)) == (0, 1, 8, 0)


# Vendored libraries ----------------------------------------------------------------------------------


def test_every_vendored_file_is_the_one_that_its_readme_names():
    readme = (VENDOR / "README.md").read_text("utf-8")
    for path in VENDOR.glob("*.js"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert f"| {path.name} |" in readme
        assert digest in readme


# Double clicks ------------------------------------------------------------------------------------


def once_of(html: str) -> str:
    found = re.search(r'name="once" value="([^"]+)"', html)
    assert found is not None
    return found[1]


def test_the_list_of_labs_shows_the_first_paragraph_of_each_and_its_page_shows_all(browser, lab):
    Lab.objects.filter(pk=lab.pk).update(summary="What it is about.\n\nA table of thirteen policies.")
    listed, page = browser.get("/labs/").content.decode(), browser.get(f"/labs/{lab.slug}/").content.decode()
    assert "What it is about." in listed
    assert "thirteen" not in listed
    assert "thirteen" in page


def test_a_double_click_on_the_labs_form_makes_one_run(browser, lab):
    form = {"once": once_of(browser.get("/labs/moe-eplb/").content.decode()), "/params/num_steps": "3"}
    places = {browser.post("/labs/moe-eplb/", form)["Location"] for _ in range(2)}
    assert places == {page_of(Run.objects.get())}


def test_a_double_click_on_an_attempts_form_leads_to_its_run_twice(browser, attempt):
    form = {"once": once_of(html_of(browser, attempt))}
    form |= {"/prediction/straggler_gpu": "1", "/prediction/max_over_mean": "1.5"}
    places = {browser.post(page_of(attempt), form)["Location"] for _ in range(2)}
    assert places == {page_of(Run.objects.get())}


def test_a_double_click_on_practise_makes_one_attempt(browser, task):
    page = "/labs/classes/open/tasks/moe-balance-hbm/"
    form = {"once": once_of(browser.get(page).content.decode()), "kind": "practice"}
    assert browser.post(page, form)["Location"] == browser.post(page, form)["Location"]
    assert TaskAttempt.objects.count() == 1


def test_a_double_click_on_a_variation_makes_one_run(browser, graded):
    page = f"/labs/runs/{graded.public_id}/what-if/?parameter=num_steps"
    form = {"once": once_of(browser.get(page).content.decode()), "/params/num_steps": "3"}
    places = {browser.post(page, form)["Location"] for _ in range(2)}
    assert places == {page_of(Run.objects.exclude(pk=graded.pk).get())}
