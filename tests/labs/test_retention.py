"""Reports and figures go when a site's time for them is over; scores, sheets and grades stay."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from labs import retention
from labs.models import Figure, Run
from labs.regrading import plan_regrade
from labs.retention import remove_old_reports
from labs.services import submit_run
from labs.sweeper import sweep
from quiz.models import Grade
from tests.labs.conftest import execute, report_for
from tests.labs.test_api import client_of
from tests.labs.test_services import submit


@pytest.fixture
def old(attempt, simulation, settings) -> Run:
    """A graded run that ended 31 days ago, where reports are kept for 30."""
    settings.KEEP_REPORTS_DAYS = 30
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    Figure.objects.create(run=run, name="f", position=0, title="F", spec={}, table=[], png=b"")
    Run.objects.update(finished_at=Now() - timedelta(days=31))
    run.refresh_from_db()
    assert run.report
    return run


def test_an_old_report_goes_with_its_figures_and_the_grade_stays(old):
    score = old.score
    assert remove_old_reports() == 1
    old.refresh_from_db()
    assert (old.report, old.state, old.score) == (None, "graded", score)
    assert old.report_removed_at is not None and old.sheet
    assert not Figure.objects.exists()
    assert Grade.objects.get().score == score


def test_a_younger_one_stays_and_without_the_setting_all_do(old, settings):
    settings.KEEP_REPORTS_DAYS = 32
    assert remove_old_reports() == 0
    settings.KEEP_REPORTS_DAYS = 0
    assert remove_old_reports() == 0


def test_reports_go_in_batches(old, lab, learner, simulation, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 1)
    run = submit_run(learner=learner, lab=lab, params={})
    simulation(report_for(run))
    execute(run)
    Run.objects.update(finished_at=Now() - timedelta(days=31))
    assert [remove_old_reports() for _ in range(3)] == [1, 1, 0]


def test_the_sweeper_removes_them_and_asks_for_no_drawing_again(old, worker, messages, settings):
    settings.SWEEP_RESEND_S = 0
    messages.clear()
    sweep()
    sweep()
    old.refresh_from_db()
    assert old.report is None
    assert messages == []


def test_a_run_without_its_report_can_still_be_read(old, learner, client):
    remove_old_reports()
    place = f"/api/v1/runs/{old.public_id}/"
    shown = client_of(learner).get(place).json()
    assert (shown["state"], shown["score"], shown["metrics"]) == ("graded", str(old.score), None)
    assert shown["seed"] == old.seed and shown["criteria"]
    assert client_of(learner).get(f"{place}report/").status_code == 404
    client.force_login(learner)
    page = client.get(f"/labs/runs/{old.public_id}/")
    assert page.status_code == 200
    assert "Its report and figures were kept until" in page.content.decode()


def test_a_variation_of_a_run_without_its_report_has_no_difference_to_show(old, lab, learner, simulation):
    from labs.reflection import vary_run

    remove_old_reports()
    varied = vary_run(learner=learner, run=old, changes={"num_steps": 3})
    simulation(report_for(varied))
    execute(varied)
    answer = client_of(learner).get(f"/api/v1/runs/{varied.public_id}/difference/")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:staffloop:problem:conflict")


def test_a_regrade_leaves_the_score_of_a_run_without_its_report(old, task):
    remove_old_reports()
    for criterion in task.rubric["criteria"]:
        criterion["points"] = "3.00"
    task.save()
    plan = plan_regrade(task)
    assert (plan.runs_seen, plan.reports_removed, plan.runs, plan.grades) == (1, 1, (), ())
