"""A task's leaderboard: who lets themselves be ranked, and by which final runs.

Ranked is not the graded run but a final run (labs.final_runs): the same open parameters on one instance of the task,
the same for all learners and shown to nobody. It is drawn by the server's secret and stored nowhere: each worker draws
it for itself. Nothing here writes an attempt, a run or a grade.
"""

import hashlib
import hmac
import json
import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OrderBy, OuterRef, QuerySet, Subquery, Window
from django.db.models.functions import RowNumber

from labs import dispatch
from labs.criteria import AnyCriterion
from labs.display_names import checked_name, is_own_login, is_somebodys_login, spelled
from labs.labels import label
from labs.models import FinalRun, LabTask, LeaderboardEntry, Run
from labs.rubric import scalar_metrics
from labs.services import SEED_BITS
from quiz.errors import Closed, Conflict, InvalidInput
from quiz.models import Enrollment, Learner, Offering
from quiz.names import key_of
from quiz.services import lock_enrollment
from quiz.services.learner_data import lock_rows
from simworkers.catalog import engine_version, job_names

log = logging.getLogger(__name__)

JUDGES_PREDICTION = ("predicted_exactly", "predicted_within", "prediction_made")
# In one transaction: a sweep must not hold up a worker's heartbeat.
BATCH = 50
OF_ITS_TASK = ("task__activity", "task__lab__default_trace__file")
# The same answer for a name that is taken and for a login: alone it does not say that somebody has an account here.
# Who sees the whole board may conclude it, as from the refusal when they register under that login.
UNAVAILABLE = "is taken or not allowed; choose another"


@dataclass(frozen=True)
class Scale:
    """What is ranked by: a metric of the lab's report."""

    metric: str
    title: str
    description: str
    unit: str
    more_is_better: bool


def scale_of(task: LabTask) -> Scale:
    schema = scalar_metrics(task.lab.job).get(task.leaderboard_metric, {})
    return Scale(
        metric=task.leaderboard_metric,
        title=label(task.leaderboard_metric, schema),
        description=schema.get("description", ""),
        unit=schema.get("unit", ""),
        more_is_better=task.leaderboard_better == LabTask.Better.MORE,
    )


# What is compared ----------------------------------------------------------------------------------


def keyed_digest(text: str) -> bytes:
    return hmac.digest(settings.SECRET_KEY.encode(), text.encode(), hashlib.sha256)


def final_seed(task: LabTask) -> int:
    """From which the final instance is drawn. No attempt's: their texts have four parts."""
    return int.from_bytes(keyed_digest(f"{task.slug}:final")[:8], "big") >> (64 - SEED_BITS)


def edition(task: LabTask) -> str:
    """32 hex digits that name all that makes two scores comparable: the instance, the engine, the metric, the demands.

    Keyed, so that it says nothing of the secret; another secret is another instance, and another edition. A rubric that
    cannot be read is an edition in which nobody is ranked.
    """
    demands = [criterion.model_dump(mode="json", exclude={"title", "feedback"}) for criterion in gates(task)]
    version = engine_version(task.lab.slug)
    trace = task.lab.default_trace.file.digest if task.lab.default_trace else ""
    is_readable = task.readable_rubric() is not None
    parts = [
        task.slug,
        task.lab.slug,
        version,
        trace,
        task.kind,
        task.leaderboard_metric,
        is_readable,
        demands,
    ]
    return keyed_digest(f"leaderboard edition {json.dumps(parts)}").hex()[:32]


def gates(task: LabTask) -> list[AnyCriterion]:
    """The criteria that the task requires without points, as a budget: who breaks one is not ranked.

    Predictions are left out: one was made for another instance.
    """
    return [
        criterion
        for criterion in task.criteria()
        if criterion.points == 0 and criterion.kind not in JUDGES_PREDICTION
    ]


def boards() -> list[LabTask]:
    """The published tasks with a leaderboard that this process knows the lab of, and whose demands can be read."""
    tasks = LabTask.objects.filter(leaderboard=True, published=True, lab__slug__in=job_names())
    found = tasks.select_related("activity", "lab__default_trace__file")
    return [task for task in found if task.readable_rubric() is not None]


# Who is ranked -------------------------------------------------------------------------------------


def ranking(task: LabTask, offering: Offering) -> QuerySet[LeaderboardEntry]:
    """The ranked entries of a class, best first, each with `rank` from 1 and `score`.

    The best final run of a learner counts; of equal scores the one that was submitted first.
    """
    best_first = OrderBy(F("score"), descending=scale_of(task).more_is_better)
    finals = FinalRun.objects.filter(
        entry=OuterRef("pk"), edition=edition(task), state=FinalRun.State.READY
    ).order_by(best_first, "run__created_at", "run_id")
    enrolled = Enrollment.objects.filter(offering=OuterRef("offering"), learner=OuterRef("learner"))
    entries = LeaderboardEntry.objects.filter(Exists(enrolled), task=task, offering=offering).annotate(
        score=Subquery(finals.values("score")[:1]),
        submitted_at=Subquery(finals.values("run__created_at")[:1]),
        best_run=Subquery(finals.values("run_id")[:1]),
    )
    order = [best_first, F("submitted_at").asc(), F("best_run").asc()]
    ranked = entries.filter(score__isnull=False).annotate(rank=Window(RowNumber(), order_by=order))
    return ranked.order_by("rank")


@dataclass(frozen=True)
class Standing:
    """Where one entry stands. `rank` and `score` are None until a final run of the present edition is ready."""

    entry: LeaderboardEntry
    rank: int | None
    score: float | None
    finals: list[FinalRun]

    @property
    def state(self) -> str:
        """`ranked`, also while others of its runs are computed; `computing`, `refused`, `failed`, or `left`."""
        if self.rank is not None:
            return "ranked"
        states = {final.state for final in self.finals}
        if FinalRun.State.READY in states:
            return "left"  # the class: nobody sees the entry there
        if not states or FinalRun.State.WAITING in states:
            return "computing"
        return "failed" if FinalRun.State.FAILED in states else "refused"

    @property
    def is_awaited(self) -> bool:
        return not self.finals or any(final.state == FinalRun.State.WAITING for final in self.finals)


def standing_of(entry: LeaderboardEntry) -> Standing:
    task = entry.task
    finals = list(entry.final_runs.filter(edition=edition(task)).select_related("run").order_by("run_id"))
    rank, score = None, None
    if any(final.state == FinalRun.State.READY for final in finals):
        # Its rank is known only among all: a window counts what the filter has left.
        rows: Any = ranking(task, entry.offering)
        found = {pk: (rank, score) for pk, rank, score in rows.values_list("pk", "rank", "score")}
        rank, score = found.get(entry.pk, (None, None))
    return Standing(entry, rank, score, finals)


def entries_of(*, learner: Learner, task: LabTask) -> QuerySet[LeaderboardEntry]:
    """One a class; also of a class that they have left, so that they can withdraw from it."""
    rows = LeaderboardEntry.objects.filter(learner=learner, task=task)
    return rows.select_related(*OF_ITS_TASK, "offering", "learner")


def sees_all(learner: Learner, offering: Offering) -> bool:
    """Whether scores and people are shown beside the names: to staff, and to those who teach the class."""
    teaches = Enrollment.objects.filter(learner=learner, offering=offering).exclude(
        role=Enrollment.Role.LEARNER
    )
    return learner.is_staff or teaches.exists()


# Entering and withdrawing --------------------------------------------------------------------------


@transaction.atomic
def enter(
    *, learner: Learner, task: LabTask, offering: Offering, display_name: str
) -> tuple[LeaderboardEntry, bool]:
    """(entry, whether it is new): let oneself be ranked under this name, or change it. Doing it twice does it once.

    Nobody withdraws it until the transaction ends.
    """
    lock_enrollment(learner=learner, offering=offering)
    entry = entries_of(learner=learner, task=task).filter(offering=offering).first()
    is_new = entry is None
    if entry is None:
        if not offering.is_open:
            raise Closed(f"{offering} is closed.")
        if not graded_runs(task).filter(learner=learner, task_attempt__offering=offering).exists():
            raise Conflict("You can enter once a run of this task is graded; practice does not count.")
        entry = LeaderboardEntry(learner=learner, task=task, offering=offering)
    if (
        is_new or spelled(display_name) != entry.display_name
    ):  # kept, whoever has come to have a login like it
        entry.display_name = acceptable_name(display_name, learner)
        entry.name_key = key_of(entry.display_name)
    try:
        with transaction.atomic():
            entry.save()
    except IntegrityError as exc:
        raise InvalidInput([("/display_name", UNAVAILABLE)]) from exc
    add_final_runs([entry], edition(task))
    for final in entry.final_runs.computable().filter(sent_at__isnull=True).order_by("pk"):
        dispatch.on_commit(partial(dispatch.send_final_run, final.pk))
    return entry, is_new


def acceptable_name(text: str, learner: Learner) -> str:
    try:
        name = checked_name(text)
        if is_own_login(name, learner):
            raise ValueError("is your login or e-mail address, which others would read; choose another")
    except ValueError as exc:
        raise InvalidInput([("/display_name", str(exc))]) from exc
    if is_somebodys_login(name):
        raise InvalidInput([("/display_name", UNAVAILABLE)])
    return name


@transaction.atomic
def withdraw(*, entry: LeaderboardEntry) -> None:
    """The name, and all that was computed for it, go; a worker that is computing finds no row that it holds."""
    enrolled = Enrollment.objects.filter(learner=entry.learner_id, offering=entry.offering_id)
    # Against whoever enters, and against the sweeper, which adds final runs.
    lock_rows(enrolled, LeaderboardEntry.objects.filter(pk=entry.pk))
    entry.delete()


# Final runs that are to be computed ----------------------------------------------------------------


def graded_runs(task: LabTask) -> QuerySet[Run]:
    """Of all learners; practice is none."""
    return Run.objects.filter(state=Run.State.GRADED, task_attempt__task=task, task_attempt__practice=False)


def lacking(task: LabTask, named: str) -> QuerySet[Run]:
    """Graded runs without a final run of this edition."""
    have = FinalRun.objects.filter(run=OuterRef("pk"), edition=named)
    return graded_runs(task).filter(~Exists(have)).order_by("pk")


def add_missing_final_runs() -> None:
    """For what was graded since its learner entered, and for every run where the edition is a new one.

    A batch of entries at a time: the next round takes the others.
    """
    for task in boards():
        named = edition(task)
        theirs = lacking(task, named).filter(
            learner=OuterRef("learner"), task_attempt__offering=OuterRef("offering")
        )
        with transaction.atomic():
            # Locked, so that nobody withdraws meanwhile.
            entries = LeaderboardEntry.objects.filter(Exists(theirs), task=task).select_for_update()
            add_final_runs(list(entries.order_by("pk")[:BATCH]), named)


def add_final_runs(entries: list[LeaderboardEntry], named: str) -> None:
    """A waiting row for each graded run of these entries that has none. Any number of callers make one each."""
    for entry in entries:
        runs = lacking(entry.task, named).filter(
            learner=entry.learner_id, task_attempt__offering=entry.offering_id
        )
        version = engine_version(entry.task.lab.slug)
        rows = [FinalRun(entry=entry, run=run, edition=named, engine_version=version) for run in runs]
        FinalRun.objects.bulk_create(rows, ignore_conflicts=True)
        if rows:
            log.info("leaderboard of %s: %d final run(s) wait", entry.task, len(rows))


def compute_again(entries: QuerySet[LeaderboardEntry]) -> int:
    """Of these entries, the final runs that our side has failed: back to waiting, where the sweeper finds them."""
    failed = FinalRun.objects.filter(entry__in=entries, state=FinalRun.State.FAILED)
    return failed.update(state=FinalRun.State.WAITING, tries=0, sent_at=None, reason="", computed_at=None)


def board_facts(task: LabTask) -> dict[str, Any]:
    """What anybody may know of how it is ranked, as JSON can say it."""
    scale = scale_of(task)
    return {
        "metric": scale.metric,
        "description": scale.description,
        "unit": scale.unit,
        "more_is_better": scale.more_is_better,
    }
