"""What is counted from rows: the queue, the last day, the workers."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.db.models.functions import Now

from labs.metrics import run_metrics
from labs.models import Run, TaskAttempt
from labs.services import submit_run
from labs.sweeper import reap_expired_runs
from tests.labs.conftest import execute, report_for


def value(name: str, **labels: str) -> float | None:
    """The sample of this name and these labels; None where there is none."""
    samples = [sample for family in run_metrics() for sample in family.samples]
    found = [sample.value for sample in samples if sample.name == name and sample.labels == labels]
    return found[0] if found else None


@pytest.fixture
def run(lab, learner) -> Run:
    return submit_run(learner=learner, lab=lab, params={})


def finish(run: Run, simulation: Any, *, waited_s: float = 1, took_s: float = 3) -> None:
    """Grade the run as if it had waited and computed so long, until now."""
    simulation(report_for(run))
    execute(run)
    Run.objects.filter(pk=run.pk).update(
        created_at=Now() - timedelta(seconds=waited_s + took_s),
        started_at=Now() - timedelta(seconds=took_s),
        finished_at=Now(),
    )


def test_an_empty_queue_counts_zero_for_every_lab(lab):
    assert value("staffloop_runs", lab="moe-eplb", state="queued") == 0
    assert value("staffloop_oldest_queued_age_seconds") == 0
    assert value("staffloop_leases_expired_total") == 0


def test_the_oldest_queued_run_sets_the_age(run, lab, learner):
    submit_run(learner=learner, lab=lab, params={}, seed=1)
    Run.objects.filter(pk=run.pk).update(created_at=Now() - timedelta(seconds=90))
    assert value("staffloop_runs", lab="moe-eplb", state="queued") == 2
    age_s = value("staffloop_oldest_queued_age_seconds")
    assert age_s is not None and 89 < age_s < 120


def test_a_running_run_is_no_longer_queued(run):
    assert run.claim(60)
    assert value("staffloop_runs", lab="moe-eplb", state="queued") == 0
    assert value("staffloop_runs", lab="moe-eplb", state="running") == 1


def test_an_attempt_that_waits_to_be_prepared_has_an_age(attempt):
    TaskAttempt.objects.filter(pk=attempt.pk).update(
        state=TaskAttempt.State.PREPARING, created_at=Now() - timedelta(seconds=40)
    )
    age_s = value("staffloop_oldest_preparing_age_seconds")
    assert age_s is not None and 39 < age_s < 70


def test_expired_leases_are_counted_also_after_the_run_has_ended(run, simulation):
    for _ in range(2):
        assert Run.objects.get(pk=run.pk).claim(60)
        Run.objects.filter(pk=run.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
        reap_expired_runs()
    finish(run, simulation)
    assert value("staffloop_leases_expired_total") == 2
    assert value("staffloop_runs_last_day_by_tries", tries="3") == 1


def test_what_ended_counts_for_a_day(run, simulation):
    finish(run, simulation)
    assert value("staffloop_runs_last_day", lab="moe-eplb", state="graded") == 1
    Run.objects.update(finished_at=F("finished_at") - timedelta(hours=25))
    assert value("staffloop_runs_last_day", lab="moe-eplb", state="graded") is None


def test_durations_and_waits_fall_into_cumulative_buckets(run, simulation, lab, learner):
    finish(run, simulation, waited_s=0.2, took_s=3)
    other = submit_run(learner=learner, lab=lab, params={}, seed=1)
    finish(other, simulation, waited_s=45, took_s=45)
    name = "staffloop_run_duration_last_day_seconds"
    buckets = {
        edge: value(f"{name}_bucket", lab="moe-eplb", le=edge) for edge in ("2.0", "5.0", "60.0", "+Inf")
    }
    assert buckets == {"2.0": 0, "5.0": 1, "60.0": 2, "+Inf": 2}
    total_s = value(f"{name}_gsum", lab="moe-eplb")
    assert total_s is not None and 47.9 < total_s < 48.5
    waits = "staffloop_run_wait_last_day_seconds_bucket"
    assert [value(waits, lab="moe-eplb", le=edge) for edge in ("0.1", "0.25", "60.0")] == [0, 1, 2]


def test_a_reused_report_is_no_duration(run, simulation):
    finish(run, simulation)
    Run.objects.update(reused=True)
    assert value("staffloop_run_duration_last_day_seconds_bucket", lab="moe-eplb", le="+Inf") is None


def test_workers_and_their_free_slots(run, worker):
    assert run.claim(60, worker)
    assert value("staffloop_workers") == 1
    assert (value("staffloop_slots"), value("staffloop_free_slots")) == (2, 1)


def test_a_silent_worker_is_not_live(worker):
    type(worker).objects.update(seen_at=Now() - timedelta(minutes=5))
    assert (value("staffloop_workers"), value("staffloop_slots")) == (0, 0)


def test_a_scrape_costs_a_dozen_queries_however_many_runs_there_are(
    run, lab, learner, django_assert_max_num_queries
):
    Run.objects.bulk_create(
        Run(lab=lab, learner=learner, params={}, seed=seed, engine_version="x") for seed in range(30)
    )
    with django_assert_max_num_queries(14):
        run_metrics()
