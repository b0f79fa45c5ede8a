"""Celery's side: each task takes an id and calls one service. The worker's own timers start here too."""

from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown

from labs import execution, preparation, runner
from labs.sweeper import Sweeper

_sweeper = Sweeper()


@shared_task(name="labs.run_lab")
def run_lab(run_id: int) -> None:
    execution.execute_run(run_id)


@shared_task(name="labs.prepare_attempt")
def prepare_attempt(attempt_id: int) -> None:
    preparation.prepare_attempt(attempt_id)


@shared_task(name="labs.draw_figures")
def draw_figures(run_id: int) -> None:
    execution.draw_run_figures(run_id)


@worker_ready.connect
def start_timers(**kwargs: Any) -> None:
    """The import of torch costs seconds: the warm server starts before the first run needs it."""
    runner.warm_up()
    _sweeper.start()


@worker_shutdown.connect
def stop_timers(**kwargs: Any) -> None:
    _sweeper.stop()
    runner.shut_down()
