"""Which run a free worker takes next. A message only wakes the worker; the run is chosen here, when it is claimed.

Fair between learners: first who has the fewest runs under way, then who was served longest ago. So of two learners
with any number of queued runs each is served in turn. A worker keeps one of its slots free of long runs and of checks
of traces, so that neither ever stands before a short run. And it takes only runs of an engine version that it has.
"""

import os
import platform
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Avg, Count, F, IntegerField, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce, Now

from labs import dispatch
from labs.models import Run, TraceFile, Worker
from simworkers import catalog

# A run that lost the race for its first choices looks at this many others before it gives up.
CANDIDATES = 8
OF_ITS_TASK = ("task_attempt__task__activity", "task_attempt__task__lab", "task_attempt__offering")


def register_worker(*, slots: int) -> Worker:
    """The row of this process."""
    versions = {name: catalog.engine_version(name) for name in catalog.job_names()}
    return Worker.objects.create(host=platform.node(), pid=os.getpid(), slots=slots, engine_versions=versions)


def fair_order(queued: QuerySet[Run]) -> QuerySet[Run]:
    """Queued runs, the one to be served next first."""
    theirs = Run.objects.filter(learner=OuterRef("learner"))
    running = theirs.filter(state=Run.State.RUNNING).order_by().values("learner").annotate(n=Count("pk"))
    latest = theirs.filter(started_at__isnull=False).order_by("-started_at")
    return queued.annotate(
        under_way=Coalesce(Subquery(running.values("n"), output_field=IntegerField()), 0),
        served_at=Subquery(latest.values("started_at")[:1]),
    ).order_by("under_way", F("served_at").asc(nulls_first=True), "created_at", "pk")


def claimable(worker: Worker) -> QuerySet[Run]:
    """Queued runs that this worker can compute, and has room for."""
    versions = Q(pk__in=[])
    for lab, version in worker.computes().items():
        versions |= Q(lab__slug=lab, engine_version=version)
    queued = Run.objects.filter(versions, state=Run.State.QUEUED)
    return queued if has_long_slot(worker) else queued.filter(is_long=False)


def has_long_slot(worker: Worker) -> bool:
    """Whether it may take one more long run, or check one more trace."""
    long_ones = Run.objects.filter(worker=worker, state=Run.State.RUNNING, is_long=True).count()
    return long_ones + checks_under_way().filter(worker=worker).count() < worker.long_slots


def checks_under_way() -> QuerySet[TraceFile]:
    return TraceFile.objects.filter(state=TraceFile.State.CHECKING, lease_expires_at__gte=Now())


def claim_next(worker: Worker) -> Run | None:
    """The next run, claimed for this worker; None where there is none for it."""
    with transaction.atomic():
        # The worker's own row serialises its slots, so that two of them do not both take the last long one.
        Worker.objects.select_for_update().filter(pk=worker.pk).first()
        for run in fair_order(claimable(worker))[:CANDIDATES]:
            if run.claim(settings.RUN_LEASE_S, worker):
                # With all that judging it needs, so that it asks the database nothing while it may be away.
                return Run.objects.select_related("lab", "learner", *OF_ITS_TASK).get(pk=run.pk)
    return None


def wake_for_waiting(worker: Worker) -> None:
    """After a long run or a check has ended: what could not be taken for lack of room may be taken now."""
    if run := fair_order(claimable(worker)).filter(is_long=True).first():
        dispatch.send_run(run.pk)


def free_slots() -> int:
    """Of all live workers."""
    slots: int = Worker.objects.live().aggregate(n=Coalesce(Sum("slots"), 0))["n"]
    return max(0, slots - Run.objects.filter(state=Run.State.RUNNING).count() - checks_under_way().count())


def fail_versions_without_worker() -> list[Run]:
    """Queued runs whose engine version no worker has had for a while end `failed`; their attempts stay open."""
    patience = timedelta(seconds=settings.RUN_VERSION_PATIENCE_S)
    known = {
        (lab, version)
        for worker in Worker.objects.filter(seen_at__gte=Now() - patience)
        for lab, version in worker.computes().items()
    }
    stale = Run.objects.filter(state=Run.State.QUEUED, created_at__lt=Now() - patience).select_related("lab")
    ended = []
    for run in stale:
        if (run.lab.slug, run.engine_version) not in known:
            reason = (
                f"No worker has version {run.engine_version} of {run.lab.slug} any more; submit it again."
            )
            row = Run.objects.filter(pk=run.pk, state=Run.State.QUEUED)
            if row.update(state=Run.State.FAILED, reason=reason, finished_at=Now()):
                ended.append(run)
    return ended


def waits_in_vain(run: Run) -> str:
    """Why nobody will take this queued run as things stand, as a sentence; empty where a live worker can."""
    live = list(Worker.objects.live())
    if not live:
        return "No worker is alive just now; it starts when one is."
    if any(worker.computes().get(run.lab.slug) == run.engine_version for worker in live):
        return ""
    return (
        "No live worker has the version of the lab that it was submitted with; if none comes within "
        f"{settings.RUN_VERSION_PATIENCE_S} s of its submission, it ends failed, and a task's attempt stays open."
    )


def queue_position(run: Run) -> int:
    """How many runs are served before this one, if learners are served in turn and none is added."""
    queued = Run.objects.filter(state=Run.State.QUEUED)
    own_before = queued.filter(learner=run.learner, created_at__lt=run.created_at).count()
    others = queued.exclude(learner=run.learner).values("learner").annotate(n=Count("pk"))
    return own_before + sum(min(row["n"], own_before + 1) for row in others)


def expected_wait_s(run: Run) -> float | None:
    """Seconds until it starts, by the mean duration of the latest runs; None while no live worker can take it."""
    live = Worker.objects.live()
    slots = sum(worker.slots for worker in live if worker.computes().get(run.lab.slug) == run.engine_version)
    if slots == 0:
        return None
    latest = Run.objects.filter(state=Run.State.GRADED, reused=False).order_by("-finished_at")[:20]
    mean = Run.objects.filter(pk__in=latest.values("pk")).aggregate(
        s=Avg(F("finished_at") - F("started_at"))
    )["s"]
    each_s: float = mean.total_seconds() if mean else 0.0
    ahead = queue_position(run) + Run.objects.filter(state=Run.State.RUNNING).count()
    return round(each_s * max(0, ahead - slots + 1) / slots, 1)
