"""What a worker does with a new attempt: draw its instance in a child, and open it."""

import logging
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from labs import runner
from labs.execution import limits
from labs.models import LabTask, TaskAttempt
from labs.outages import persistently, tolerant
from labs.run_traces import digests_in, files_to_draw, locked_files, pinned
from labs.trace_storage import Unreadable
from simworkers import logs
from simworkers.catalog import engine_version
from simworkers.jobs import PreparedInstance

log = logging.getLogger(__name__)


def preparable() -> QuerySet[TaskAttempt]:
    """Attempts that nobody is preparing now."""
    free = Q(lease__isnull=True) | Q(lease_expires_at__lt=Now())
    return TaskAttempt.objects.filter(free, state=TaskAttempt.State.PREPARING)


def prepare_attempt(attempt_id: int) -> None:
    """Take a preparing attempt to `open`, or after the last try to `failed`, which does not count."""
    lease = uuid.uuid4()
    expires = Now() + timedelta(seconds=settings.RUN_LEASE_S)
    free = preparable().filter(pk=attempt_id)
    if not persistently(lambda: free.update(lease=lease, lease_expires_at=expires, tries=F("tries") + 1)):
        return
    attempt = (
        TaskAttempt.objects.select_related("task__activity", "task__lab__default_trace__file")
        .filter(pk=attempt_id)
        .first()
    )
    if attempt is None:
        return  # its learner was erased since
    held = TaskAttempt.objects.filter(pk=attempt_id, state=TaskAttempt.State.PREPARING, lease=lease)

    def beat(steps: tuple[int, int] | None) -> bool:
        return held.update(lease_expires_at=Now() + timedelta(seconds=settings.RUN_LEASE_S)) == 1

    try:
        with logs.bind(attempt=str(attempt.public_id)):
            drawn = runner.call(
                "prepare_task",
                {
                    "lab": attempt.task.lab.slug,
                    "kind": attempt.task.kind,
                    "seed": attempt.draw_seed,
                    "files": files_or_none(attempt.task),
                },
                limits=limits(),
                on_beat=tolerant(beat),
                beat_s=settings.RUN_HEARTBEAT_S,
            )
        prepared = PreparedInstance.model_validate(drawn)
        params = pinned(attempt.task.lab, prepared.params)
        persistently(lambda: open_drawn(attempt, held, prepared, params))
    except runner.JobStopped:
        return
    except (runner.JobFailed, runner.JobTimedOut, Unreadable, ValueError) as exc:
        log.error("attempt %s: could not be prepared: %s", attempt.public_id, exc)
        persistently(lambda: give_up_or_wait(attempt, held))


def files_or_none(task: LabTask) -> dict[str, str]:
    """What it is drawn from; nothing where the default trace cannot be read, which must not close the task."""
    try:
        return persistently(lambda: files_to_draw(task))
    except Unreadable as exc:
        log.error("task %s: the default trace cannot be read, drawn without it: %s", task.slug, exc)
        return {}


@transaction.atomic
def open_drawn(
    attempt: TaskAttempt, held: QuerySet[TaskAttempt], prepared: PreparedInstance, params: dict[str, Any]
) -> None:
    """The attempt with its instance, and with the files that this names. Unreadable where one was removed meanwhile."""
    if held.select_for_update().first() is None:  # before its files: the order in which an erasure locks
        return
    files = locked_files(digests_in(attempt.task.lab, params))
    held.update(
        state=TaskAttempt.State.OPEN,
        instance={"params": params, "seed": prepared.seed},
        visible=prepared.visible,
        engine_version=engine_version(attempt.task.lab.slug),
        lease=None,
        lease_expires_at=None,
        opened_at=Now(),
    )
    attempt.traces.set(files)


def give_up_or_wait(attempt: TaskAttempt, held: QuerySet[TaskAttempt]) -> None:
    """`failed` after the last try; before, the sweeper sends it again. The fault is logged; it may name seeds."""
    if attempt.tries >= settings.RUN_MAX_TRIES:
        error = "It could not be prepared, which is our fault; it does not count. Open another."
        held.update(state=TaskAttempt.State.FAILED, error=error, lease=None, lease_expires_at=None)
    else:
        held.update(lease=None, lease_expires_at=None, sent_at=None)
