"""Whose turn it is: fairness, room for short runs, engine versions, position and estimate."""

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from labs.models import Lab, Run, Worker
from labs.scheduling import (
    claim_next,
    expected_wait_s,
    fail_versions_without_worker,
    free_slots,
    queue_position,
    register_worker,
    waits_in_vain,
    wake_for_waiting,
)
from labs.sweeper import forget_dead_workers, sweep
from quiz.models import Learner
from simworkers import catalog
from tests.labs.conftest import make_learner
from tests.labs.test_services import in_parallel

Queue = Callable[..., Run]


@pytest.fixture
def queue(lab: Lab) -> Queue:
    def put(learner: Learner, **values: Any) -> Run:
        version = catalog.engine_version(lab.slug)
        return Run.objects.create(
            **{"lab": lab, "learner": learner, "params": {}, "seed": 0, "engine_version": version} | values
        )

    return put


@pytest.fixture
def ada(offering) -> Learner:
    return make_learner("ada", offering)


@pytest.fixture
def bob(offering) -> Learner:
    return make_learner("bob", offering)


def take(worker: Worker) -> Run:
    run = claim_next(worker)
    assert run is not None
    return run


def end(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=Run.State.CANCELLED, finished_at=Now())


def test_of_one_learners_runs_the_oldest_is_taken_first(queue, ada, worker):
    first, second = queue(ada), queue(ada)
    assert [claim_next(worker), claim_next(worker)] == [first, second]


def test_fifty_queued_runs_of_one_learner_delay_anothers_by_one_run(queue, ada, bob, worker):
    for _ in range(50):
        queue(ada)
    claim_next(worker)
    late = queue(bob)
    assert claim_next(worker) == late


def test_two_learners_with_long_queues_are_served_in_turn(queue, ada, bob, worker):
    for learner in (ada, bob):
        for _ in range(3):
            queue(learner)
    served = []
    while run := claim_next(worker):
        served.append(run.learner)
        end(run)
    assert served == [ada, bob] * 3


def test_a_worker_with_two_slots_keeps_one_free_of_long_runs(queue, ada, bob, worker):
    queue(ada, is_long=True)
    queue(bob, is_long=True)
    assert take(worker).learner == ada
    assert claim_next(worker) is None
    short = queue(bob)
    assert claim_next(worker) == short


def test_a_worker_with_one_slot_takes_long_runs_too(queue, ada):
    single = register_worker(slots=1)
    long_run = queue(ada, is_long=True)
    assert claim_next(single) == long_run


def test_after_a_long_run_a_waiting_long_one_is_woken(queue, ada, bob, worker, messages):
    queue(ada, is_long=True)
    waiting = queue(bob, is_long=True)
    end(take(worker))
    wake_for_waiting(worker)
    assert messages == [("labs.run_lab", waiting.pk)]


@pytest.mark.django_db(transaction=True)
def test_two_slots_of_a_worker_never_both_take_a_long_run(queue, ada, bob, worker):
    for learner in (ada, bob):
        queue(learner, is_long=True)
    taken = in_parallel(6, lambda: claim_next(worker))
    assert sum(isinstance(run, Run) for run in taken) == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_each_run_is_taken_by_one(queue, ada, bob):
    runs = {queue(learner).pk for learner in (ada, bob, ada, bob)}
    workers = [register_worker(slots=4) for _ in range(8)]
    results = in_parallel(8, lambda: claim_next(workers.pop()))
    assert sorted(run.pk for run in results if run is not None) == sorted(runs)


def test_a_worker_takes_only_runs_of_an_engine_version_it_has(queue, ada, worker):
    queue(ada, engine_version="older")
    assert claim_next(worker) is None


def test_a_run_whose_version_no_worker_has_fails_after_a_while(queue, ada, worker, settings):
    run = queue(ada, engine_version="older")
    assert fail_versions_without_worker() == []
    Run.objects.update(created_at=Now() - timedelta(seconds=settings.RUN_VERSION_PATIENCE_S + 1))
    assert fail_versions_without_worker() == [run]
    run.refresh_from_db()
    assert run.state == Run.State.FAILED
    assert "older" in run.reason


def test_a_run_whose_worker_restarted_a_moment_ago_is_waited_for(queue, ada, worker, settings):
    queue(ada)
    Run.objects.update(created_at=Now() - timedelta(seconds=settings.RUN_VERSION_PATIENCE_S + 1))
    Worker.objects.update(seen_at=Now() - timedelta(seconds=60))
    assert fail_versions_without_worker() == []


def test_the_sweeper_sends_no_more_messages_than_there_are_free_slots(queue, ada, worker, messages):
    for _ in range(5):
        queue(ada)
    claim_next(worker)
    assert free_slots() == 1
    sweep()
    assert len(messages) == 1


def test_the_position_counts_learners_in_turn(queue, ada, bob):
    for _ in range(5):
        queue(ada)
    first, second = queue(bob), queue(bob)
    assert [queue_position(first), queue_position(second)] == [1, 3]


def test_there_is_no_estimate_without_a_live_worker(queue, ada, worker):
    run = queue(ada)
    assert expected_wait_s(run) == 0.0
    Worker.objects.update(seen_at=Now() - timedelta(hours=1))
    assert expected_wait_s(run) is None


def test_the_estimate_follows_the_duration_of_the_latest_runs(queue, ada, worker):
    Run.objects.filter(pk=queue(ada).pk).update(
        state=Run.State.GRADED, report={}, started_at=Now() - timedelta(seconds=10), finished_at=Now()
    )
    for _ in range(4):
        queue(ada)
    assert expected_wait_s(queue(ada)) == pytest.approx(15, abs=0.1)  # 3 must end first, two at a time


def test_a_worker_whose_row_was_cleared_away_reports_itself_again(worker):
    Worker.objects.all().delete()
    worker.report()
    assert Worker.objects.live().count() == 1


def test_a_worker_not_seen_for_a_day_is_forgotten_and_its_runs_stay(queue, ada, worker):
    run = take_of(queue(ada), worker)
    Worker.objects.update(seen_at=Now() - timedelta(days=2))
    forget_dead_workers()
    run.refresh_from_db()
    assert (Worker.objects.count(), run.worker) == (0, None)


def take_of(run: Run, worker: Worker) -> Run:
    assert take(worker) == run
    return run


def test_a_run_whose_version_no_live_worker_has_says_so_and_expects_nothing(queue, ada, worker):
    run = queue(ada, engine_version="of-yesterday")
    assert "No live worker has the version" in waits_in_vain(run)
    assert "within 300 s" in waits_in_vain(run)
    assert expected_wait_s(run) is None
    Worker.objects.create(host="old", pid=1, slots=1, engine_versions={run.lab.slug: "of-yesterday"})
    assert (waits_in_vain(run), expected_wait_s(run)) == ("", 0.0)


def test_a_run_says_that_no_worker_is_alive(queue, ada):
    assert waits_in_vain(queue(ada)) == "No worker is alive just now; it starts when one is."


def test_the_versions_are_those_of_the_files_that_the_process_was_started_with():
    """In a process of its own: after Django's start nothing is hashed again, whatever becomes of the files."""
    code = """
import django
django.setup()
from simworkers import catalog
before = catalog.engine_version.cache_info()
for name in catalog.job_names():
    catalog.engine_version(name)
assert before.currsize == len(catalog.job_names()), before
assert catalog.engine_version.cache_info().misses == before.misses
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)
