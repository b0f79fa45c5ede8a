"""Celery's side: each task takes an id and calls one service. The worker's own timers start here too."""

import logging
import math
import os
from typing import Any

from celery import shared_task
from celery.signals import worker_init, worker_ready, worker_shutdown

from labs import drawing, execution, final_runs, preparation, runner, sweeps, trace_checks
from labs.models import Worker
from labs.outages import persistently
from labs.scheduling import register_worker
from labs.sweeper import Sweeper
from simworkers import logs

log = logging.getLogger(__name__)

_sweeper = Sweeper()
# The row of this worker; forked pool processes inherit it.
_worker: Worker | None = None


@shared_task(name="labs.run_lab")
def run_lab(run_id: int) -> None:
    """A run waits. Whose turn it is gets decided now, not when the message was sent."""
    assert _worker is not None
    execution.execute_next_run(_worker, sent_for=run_id)


@shared_task(name="labs.prepare_attempt")
def prepare_attempt(attempt_id: int) -> None:
    preparation.prepare_attempt(attempt_id)


@shared_task(name="labs.draw_figures")
def draw_figures(run_id: int) -> None:
    drawing.draw_run_figures(run_id)


@shared_task(name="labs.compute_final_run")
def compute_final_run(final_run_id: int) -> None:
    final_runs.compute_final_run(final_run_id)


@shared_task(name="labs.compute_sweep")
def compute_sweep(sweep_id: int) -> None:
    sweeps.compute_sweep(sweep_id)


@shared_task(name="labs.check_trace")
def check_trace(file_id: int) -> None:
    """A file waits. Which is checked gets decided now, as for runs."""
    assert _worker is not None
    trace_checks.check_next_trace(_worker)


@worker_init.connect
def register(sender: Any, **kwargs: Any) -> None:
    """Before the pool is made, so that forked processes know their worker too.

    A worker waits for its database: Celery would go on after an error here, with a worker that can do nothing.
    """
    global _worker
    slots = sender.concurrency if isinstance(sender.concurrency, int) else os.cpu_count() or 1
    _worker = persistently(lambda: register_worker(slots=slots), patience_s=math.inf)
    logs.name_process(worker=str(_worker))


@worker_ready.connect
def start_timers(**kwargs: Any) -> None:
    """The import of torch costs seconds: the warm server starts before the first run needs it."""
    assert _worker is not None
    _sweeper.start(_worker)
    try:
        runner.warm_up()
    except runner.JobFailed as exc:
        log.error("the simulation server is started again at the first run: %s", exc)


@worker_shutdown.connect
def stop_timers(**kwargs: Any) -> None:
    _sweeper.stop()
    runner.shut_down()
