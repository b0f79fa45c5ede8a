"""The explore sweep of a lab: asked for once, computed by a worker, kept for as long as the engine stays the same."""

import json
import logging
import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from labs import dispatch, runner
from labs.models import Lab, Sweep
from labs.outages import persistently, tolerant
from quiz.errors import Refusal
from simworkers.catalog import engine_version, job_names
from simworkers.jobs import SweepData

log = logging.getLogger(__name__)

DATA_LIMIT_BYTES = 2**20


def limits() -> runner.Limits:
    return runner.Limits(time_s=settings.EXPLORE_TIME_LIMIT_S, memory_bytes=settings.RUN_MEMORY_LIMIT_BYTES)


class NotComputed(Refusal):
    """The sweep failed as often as it is tried: our fault."""

    status = 503
    slug = "sweep-not-computed"
    title = "The sweep could not be computed"
    headers = {"Retry-After": "600"}


@transaction.atomic
def ask_for_sweep(*, lab: Lab) -> Sweep:
    """The sweep of this lab by this engine version; the first to ask has it computed. Raises NotComputed."""
    sweep, is_new = Sweep.objects.get_or_create(lab=lab, engine_version=engine_version(lab.slug))
    if is_new:
        dispatch.on_commit(partial(dispatch.send_sweep, sweep.pk))
    if sweep.state == Sweep.State.FAILED:
        raise NotComputed(f"It was tried {sweep.tries} times, the last time: {sweep.reason}")
    return sweep


def computable() -> QuerySet[Sweep]:
    """Sweeps that nobody is computing now, and that this process's engine can compute."""
    free = Q(lease__isnull=True) | Q(lease_expires_at__lt=Now())
    mine = Q()
    for name in job_names():
        mine |= Q(lab__slug=name, engine_version=engine_version(name))
    return Sweep.objects.filter(free, mine, state=Sweep.State.WAITING)


def unheard_sweeps() -> list[int]:
    """Those whose last message was never sent, or so long ago that it may be lost."""
    long_ago = Now() - timedelta(seconds=settings.SWEEP_RESEND_S)
    unheard = Q(sent_at__isnull=True) | Q(sent_at__lt=long_ago)
    return list(computable().filter(unheard).values_list("pk", flat=True))


def compute_sweep(sweep_id: int) -> None:
    """Take a waiting sweep to `ready`, or after the last try to `failed`."""
    lease = uuid.uuid4()
    expires = Now() + timedelta(seconds=settings.RUN_LEASE_S)
    free = Sweep.objects.filter(pk__in=computable().filter(pk=sweep_id).values("pk"))
    if not persistently(lambda: free.update(lease=lease, lease_expires_at=expires, tries=F("tries") + 1)):
        return
    sweep = Sweep.objects.select_related("lab").get(pk=sweep_id)
    held = Sweep.objects.filter(pk=sweep_id, state=Sweep.State.WAITING, lease=lease)

    def beat(steps: tuple[int, int] | None) -> bool:
        return held.update(lease_expires_at=Now() + timedelta(seconds=settings.RUN_LEASE_S)) == 1

    if sweep.tries > settings.RUN_MAX_TRIES:
        reason = "It was interrupted too often."
        persistently(lambda: give_up_or_wait(sweep, held, reason))
        return
    try:
        computed = runner.call(
            "run_sweep",
            {"lab": sweep.lab.slug},
            limits=limits(),
            on_beat=tolerant(beat),
            beat_s=settings.RUN_HEARTBEAT_S,
        )
        data = checked_data(computed)
    except runner.JobStopped:
        return
    except (runner.JobFailed, runner.JobTimedOut, ValueError) as exc:
        log.error("%s: could not be computed: %s", sweep, exc)
        why = str(exc)
        persistently(lambda: give_up_or_wait(sweep, held, why))
        return
    persistently(
        lambda: held.update(
            state=Sweep.State.READY,
            data=data,
            lease=None,
            lease_expires_at=None,
            reason="",
            computed_at=Now(),
        )
    )


def checked_data(computed: Any) -> dict[str, Any]:
    """What the child handed back, if it has a sweep's shape and is no larger than we keep. ValueError otherwise."""
    # Before the model: its JSON mode would make a null of a NaN, which nobody would notice.
    if (size := len(json.dumps(computed, allow_nan=False))) > DATA_LIMIT_BYTES:
        raise ValueError(f"the sweep has {size} bytes; at most {DATA_LIMIT_BYTES} are kept")
    return SweepData.model_validate(computed).model_dump(mode="json")


def give_up_or_wait(sweep: Sweep, held: QuerySet[Sweep], reason: str) -> None:
    """`failed` after the last try; before, the sweeper sends it once more."""
    state = Sweep.State.FAILED if sweep.tries >= settings.RUN_MAX_TRIES else Sweep.State.WAITING
    held.update(state=state, reason=reason[:2000], lease=None, lease_expires_at=None, sent_at=None)
