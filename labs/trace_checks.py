"""What a worker does with a trace that was handed in: have a child read it, and note what is in it or why not."""

import logging
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from labs import runner, trace_storage
from labs.models import TraceFile
from labs.outages import persistently, tolerant
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


def unheard_checks() -> list[int]:
    """Those whose last message was never sent, or so long ago that it may be lost."""
    long_ago = Now() - timedelta(seconds=settings.SWEEP_RESEND_S)
    unheard = Q(sent_at__isnull=True) | Q(sent_at__lt=long_ago)
    return list(checkable().filter(unheard).values_list("pk", flat=True))


def check_trace(file_id: int) -> None:
    """Take a file to `ready`, or to `refused`: at once by its own fault, after the last try by ours."""
    lease = uuid.uuid4()
    expires = Now() + timedelta(seconds=settings.RUN_LEASE_S)
    free = checkable().filter(pk=file_id)
    if not persistently(lambda: free.update(lease=lease, lease_expires_at=expires, tries=F("tries") + 1)):
        return
    held = TraceFile.objects.filter(pk=file_id, state=State.CHECKING, lease=lease)
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
