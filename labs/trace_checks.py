"""What a worker does with a trace that was handed in: have a child read it, and note what is in it or why not.

A message only wakes a worker; the file is chosen here. One of a holder is checked at a time, and first comes whose
last check is longest ago, so that nobody fills the workers. A check takes a slot as a long run does.
"""

import logging
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from labs import dispatch, runner, trace_storage
from labs.models import Trace, TraceFile, Worker
from labs.outages import persistently, tolerant
from labs.scheduling import CANDIDATES, checks_under_way, has_long_slot, wake_for_waiting
from simworkers.trace_summary import TraceSummary

log = logging.getLogger(__name__)

OURS = "It could not be checked, which is our fault; hand it in again later."
State = TraceFile.State


def limits() -> runner.Limits:
    """Less memory than a run may take, so that a run has room for a trace that was read within it."""
    return runner.Limits(
        time_s=settings.TRACE_CHECK_TIME_LIMIT_S, memory_bytes=settings.TRACE_CHECK_MEMORY_LIMIT_BYTES
    )


def checkable() -> QuerySet[TraceFile]:
    """Files that nobody is checking now."""
    free = Q(lease__isnull=True) | Q(lease_expires_at__lt=Now())
    return TraceFile.objects.filter(free, state=State.CHECKING)


def takeable() -> QuerySet[TraceFile]:
    """Of them those of which a holder has no other under way, the one to be checked next first."""
    others = checks_under_way().filter(holds__learner=OuterRef("learner"))
    idle = Trace.objects.filter(~Exists(others), file=OuterRef("pk"))
    files = (
        checkable().filter(Exists(idle)).annotate(served_at=Max("holds__learner__traces__file__checked_at"))
    )
    return files.order_by(F("served_at").asc(nulls_first=True), "pk")


def check_next_trace(worker: Worker) -> None:
    """Check the file whose turn it is. Nothing where there is none, or no slot for it."""
    if lease := persistently(lambda: claim_next(worker)):
        check_held(lease)
        persistently(lambda: wake_for_waiting(worker))
        persistently(wake_for_check)


def claim_next(worker: Worker) -> uuid.UUID | None:
    with transaction.atomic():
        # As of runs: two slots of a worker do not both take the last one for long work, nor two files of a learner.
        Worker.objects.select_for_update().filter(pk=worker.pk).first()
        if has_long_slot(worker):
            for file_id in takeable().values_list("pk", flat=True)[:CANDIDATES]:
                if lease := claim(file_id, worker):
                    return lease
    return None


def claim(file_id: int, worker: Worker | None) -> uuid.UUID | None:
    """The lease, where nobody else is checking the file."""
    lease = uuid.uuid4()
    expires = Now() + timedelta(seconds=settings.RUN_LEASE_S)
    is_won = (
        checkable()
        .filter(pk=file_id)
        .update(lease=lease, lease_expires_at=expires, worker=worker, tries=F("tries") + 1)
    )
    return lease if is_won else None


def check_held(lease: uuid.UUID) -> None:
    """Take a claimed file to `ready`, or to `refused`: at once by its own fault, after the last try by ours."""
    held = TraceFile.objects.filter(state=State.CHECKING, lease=lease)
    file = held.first()
    if file is None:  # removed, or taken by another since
        return

    def beat(steps: tuple[int, int] | None) -> bool:
        return held.update(lease_expires_at=Now() + timedelta(seconds=settings.RUN_LEASE_S)) == 1

    if file.tries > settings.RUN_MAX_TRIES:
        persistently(lambda: refuse(held, "Its check was interrupted too often; hand it in again later."))
        return
    try:
        read = runner.call(
            "inspect_trace",
            {"path": str(trace_storage.local_path(file))},
            limits=limits(),
            on_beat=tolerant(beat),
            beat_s=settings.RUN_HEARTBEAT_S,
        )
        summary = TraceSummary.model_validate(read).model_dump(mode="json")
    except runner.JobStopped:
        return
    except runner.JobTimedOut:
        seconds = settings.TRACE_CHECK_TIME_LIMIT_S
        persistently(lambda: refuse(held, f"Reading it takes longer than {seconds} seconds."))
    except runner.JobFailed as exc:
        settle_failure(file, held, exc)
    except (trace_storage.Unreadable, ValueError) as exc:
        again_or_refuse(file, held, exc)
    else:
        persistently(lambda: settle(held, State.READY, summary=summary))


def settle_failure(file: TraceFile, held: QuerySet[TraceFile], failure: runner.JobFailed) -> None:
    if failure.kind == "invalid":
        persistently(lambda: refuse(held, failure.message))
    elif failure.kind == "memory":
        mib = settings.TRACE_CHECK_MEMORY_LIMIT_BYTES // 2**20
        persistently(lambda: refuse(held, f"Reading it takes more than {mib} MiB of memory."))
    else:
        again_or_refuse(file, held, failure)


def again_or_refuse(file: TraceFile, held: QuerySet[TraceFile], fault: Exception) -> None:
    """`refused` after the last try; before, the sweeper sends it once more. The fault itself is for the log."""
    log.error("%s: try %d: could not be checked: %s", file, file.tries, fault)
    if file.tries >= settings.RUN_MAX_TRIES:
        persistently(lambda: refuse(held, OURS))
    else:
        persistently(lambda: held.update(lease=None, lease_expires_at=None, sent_at=None))


def refuse(held: QuerySet[TraceFile], reason: str) -> None:
    settle(held, State.REFUSED, reason=reason[:1000])


def settle(held: QuerySet[TraceFile], state: State, **values: Any) -> None:
    """The final state, if this worker still holds the lease."""
    held.update(state=state, lease=None, lease_expires_at=None, checked_at=Now(), **values)


# What wakes a worker for it -------------------------------------------------------------------------


def wake_for_check() -> None:
    """After a long run or a check has ended: what could not be taken for lack of room may be taken now."""
    if file := takeable().first():
        dispatch.send_trace_check(file.pk)


def send_unheard_checks(free: int) -> None:
    """Send again what was never sent, or so long ago that it may be lost; no more than could begin."""
    long_ago = Now() - timedelta(seconds=settings.SWEEP_RESEND_S)
    never_or_long_ago = Q(sent_at__isnull=True) | Q(sent_at__lt=long_ago)
    waiting = takeable()
    unheard = waiting.filter(never_or_long_ago)
    on_their_way = waiting.count() - unheard.count()
    for pk in unheard.values_list("pk", flat=True)[: max(0, free - on_their_way)]:
        # Of several sweepers one sends.
        row = TraceFile.objects.filter(never_or_long_ago, pk=pk)
        if row.update(sent_at=Now()) and not dispatch.send_trace_check(pk):
            TraceFile.objects.filter(pk=pk).update(sent_at=None)
