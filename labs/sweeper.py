"""A timer in every worker that finds what was lost: messages never sent or never picked up, leases run out.

Any number of sweepers may run at once: each change is one conditional UPDATE, and a message too many is harmless
because a run is claimed once.
"""

import logging
import threading
import time
from datetime import timedelta

from django.conf import settings
from django.db import close_old_connections
from django.db.models import F, Q
from django.db.models.functions import Now

from labs import dispatch
from labs.final_runs import send_unheard_final_runs
from labs.leaderboard import add_missing_final_runs
from labs.models import Run, TaskAttempt, Worker
from labs.preparation import preparable
from labs.retention import remove_old_reports
from labs.scheduling import fail_versions_without_worker, fair_order, free_slots
from labs.streaming.tickets import forget_old_tickets
from labs.sweeps import unheard_sweeps
from labs.trace_checks import send_unheard_checks
from labs.trace_storage import remove_orphans
from labs.traces import remove_unneeded
from quiz.services import forget_old_answers

log = logging.getLogger(__name__)

# After an outage of the database, how many heartbeats the living have to renew their leases.
GRACE_HEARTBEATS = 3
TIDY_INTERVAL_S = 3600.0


def sweep(*, reap: bool = True) -> None:
    """One round: reap expired leases unless told not to, send again what nobody heard of, forget what ran out."""
    if reap:
        reap_expired_runs()
        reap_expired_preparations()
    for run in fail_versions_without_worker():
        log.error("run %s: failed: no worker has its version", run.public_id)
    free = free_slots()
    wake_for_unheard_runs(free)
    for pk in unheard_preparations():
        dispatch.send_preparation(pk)
    for pk in unheard_sweeps():
        dispatch.send_sweep(pk)
    send_unheard_checks(free)
    ask_for_drawings(free)
    add_missing_final_runs()
    send_unheard_final_runs(free)
    forget_dead_workers()
    forget_old_answers()
    forget_old_tickets()
    remove_old_reports()


def wake_for_unheard_runs(free: int) -> None:
    """Send again, but no more messages than could start a run now, with those that are on their way already.

    A message wakes a worker for whichever run is next. While many wait, one too many finds a run as well, and so
    stays in the queue as a surplus behind which drawings and preparations stand.
    """
    unheard = Run.objects.waiting_unheard(settings.SWEEP_RESEND_S)
    on_their_way = Run.objects.filter(state=Run.State.QUEUED).count() - unheard.count()
    for run in fair_order(unheard)[: max(0, free - on_their_way)]:
        # Of several sweepers one sends.
        if unheard.filter(pk=run.pk).update(sent_at=Now()) and not dispatch.send_run(run.pk):
            Run.objects.filter(pk=run.pk, state=Run.State.QUEUED).update(sent_at=None)


def reap_expired_runs() -> None:
    """A run whose worker fell silent goes back to the queue; after the last try it is failed."""
    for run in Run.objects.lease_expired():
        # The lease in the filter: a worker that renewed it in the meantime keeps its run.
        row = run.held().filter(lease_expires_at__lt=Now())
        counted = F("leases_expired") + 1
        if run.tries >= settings.RUN_MAX_TRIES:
            reason = f"It was interrupted {run.tries} times."
            ended = row.update(
                state=Run.State.FAILED, reason=reason, lease=None, finished_at=Now(), leases_expired=counted
            )
            if ended:
                log.error("run %s: failed: %s", run.public_id, reason)
        elif row.update(
            state=Run.State.QUEUED,
            lease=None,
            lease_expires_at=None,
            sent_at=None,
            leases_expired=counted,
        ):
            log.warning("run %s: its worker fell silent in try %d; queued again", run.public_id, run.tries)


def reap_expired_preparations() -> None:
    """An attempt whose worker fell silent waits for another; begun too often, it is failed and does not count."""
    preparable().filter(tries__gte=settings.RUN_MAX_TRIES).update(
        state=TaskAttempt.State.FAILED, error="Its preparation was interrupted too often.", lease=None
    )
    preparable().filter(lease__isnull=False).update(lease=None, lease_expires_at=None, sent_at=None)


def unheard_preparations() -> list[int]:
    long_ago = Now() - timedelta(seconds=settings.SWEEP_RESEND_S)
    never_or_long_ago = Q(sent_at__isnull=True) | Q(sent_at__lt=long_ago)
    return list(preparable().filter(never_or_long_ago).values_list("pk", flat=True))


def ask_for_drawings(free: int) -> None:
    """Of graded runs whose figures were asked for long ago, or never, and are not there. No more than could begin."""
    undrawn = Run.objects.filter(
        state=Run.State.GRADED,
        report__isnull=False,
        figures__isnull=True,
        figures_tries__lt=settings.RUN_MAX_TRIES,
    )
    long_ago = Now() - timedelta(seconds=settings.SWEEP_RESEND_S)
    unheard = Q(figures_sent_at__lt=long_ago) | Q(figures_sent_at__isnull=True, finished_at__lt=long_ago)
    on_their_way = undrawn.exclude(unheard).count()
    for pk in (
        undrawn.filter(unheard).order_by("pk").values_list("pk", flat=True)[: max(0, free - on_their_way)]
    ):
        # Of several sweepers one asks.
        if Run.objects.filter(unheard, pk=pk).update(figures_sent_at=Now()):
            dispatch.send_drawing(pk)


def forget_dead_workers() -> None:
    """Workers that were not seen for a day."""
    Worker.objects.filter(seen_at__lt=Now() - timedelta(days=1)).delete()


def tidy_traces() -> None:
    """Files of traces that nobody needs any more, and those that a killed process has left without a row."""
    remove_unneeded()
    remove_orphans()


class Sweeper:
    """The timer: a daemon thread that sweeps until told to stop."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)
        self._reap_from = 0.0  # time.monotonic() seconds
        self._tidy_from = 0.0

    def start(self, worker: Worker) -> None:
        """Sweep, and report this worker alive, until told to stop."""
        self._worker = worker
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(settings.SWEEP_INTERVAL_S):
            close_old_connections()
            try:
                self.turn()
            except Exception:
                # Whatever it was, most likely a database that restarts: the next round tries again. A worker
                # without its sweeper would look healthy and find nothing that is lost.
                log.exception("the sweep was cut short")
                self._spare_the_living()

    def turn(self) -> None:
        """Report, and sweep. A database that lets us wait has let the heartbeats of others wait as well."""
        begun = time.monotonic()
        self._worker.report()
        if time.monotonic() - begun > settings.RUN_HEARTBEAT_S:
            self._spare_the_living()
        sweep(reap=time.monotonic() >= self._reap_from)
        if time.monotonic() >= self._tidy_from:
            self._tidy_from = time.monotonic() + TIDY_INTERVAL_S
            tidy_traces()

    def _spare_the_living(self) -> None:
        self._reap_from = time.monotonic() + GRACE_HEARTBEATS * settings.RUN_HEARTBEAT_S
