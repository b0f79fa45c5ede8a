"""The Celery app of the harness's workers (`celery -A tests.faults.worker worker`): the product's, with three changes.

Its warm server knows a simulation that never ends; figures are drawn for one run in DRAWN_EACH, since drawing takes
five times as long as the smallest run; and FAULTS_SKEW_S moves its clock. (libfaketime would move it for C libraries
too, but its 0.9.10 breaks Python's time.sleep: an error, or a sleep without an end.)
"""

import os
import time
from datetime import timedelta
from typing import Any

from celery.signals import worker_init
from django.utils import timezone

from config.celery import app as app

DRAWN_EACH = 25


def draws(run_id: int) -> bool:
    """Whether this run's figures are drawn."""
    return run_id % DRAWN_EACH == 0


def skew_clock(seconds: float) -> None:
    """For whoever asks from now on: kombu's transports, which load later, and all of the product."""
    true_time, true_time_ns, true_now = time.time, time.time_ns, timezone.now
    time.time = lambda: true_time() + seconds
    time.time_ns = lambda: true_time_ns() + int(seconds * 1e9)
    timezone.now = lambda: true_now() + timedelta(seconds=seconds)


if skew_s := float(os.environ.get("FAULTS_SKEW_S", "0")):
    skew_clock(skew_s)


@worker_init.connect
def change_the_product(**kwargs: Any) -> None:
    """When Django's apps are loaded, before the first task."""
    from django.conf import settings

    from labs import drawing, runner
    from labs.models import Run

    runner.SERVER = runner.WarmServer("--entries", "tests.faults.entries")
    draw = drawing.draw_run_figures

    def draw_some(run_id: int) -> None:
        if draws(run_id):
            draw(run_id)
        else:  # as after the last try, so that nobody asks again
            Run.objects.filter(pk=run_id).update(figures_tries=settings.RUN_MAX_TRIES)

    drawing.draw_run_figures = draw_some
