"""What a learner does: open an attempt, submit a run, cancel it. Verbs that cross rows or wake the workers."""

import hashlib
import hmac
import logging
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now

from labs import dispatch
from labs.models import Lab, LabTask, Run, TaskAttempt, TraceFile
from labs.run_traces import digests_in, resolve_traces
from labs.validation import check_params, check_submission
from quiz.errors import Closed, Conflict, InvalidInput, TooMany, UsedUp
from quiz.models import Learner, Offering
from quiz.services import lock_enrollment, lock_learner
from simworkers import catalog

log = logging.getLogger(__name__)

SEED_BITS = 63
NOT_COUNTED = "It does not count; open another."


def draw_seed(*, task: LabTask, offering: Offering, learner: Learner, number: int) -> int:
    """The hidden seed of a graded attempt: nobody can guess it, and we can always draw it again."""
    text = f"{task.slug}:{offering.slug}:{learner.public_id}:{number}"
    digest = hmac.digest(settings.SECRET_KEY.encode(), text.encode(), hashlib.sha256)
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


@transaction.atomic
def open_attempt(
    *, learner: Learner, task: LabTask, offering: Offering, practice: bool = False, seed: int | None = None
) -> tuple[TaskAttempt, bool]:
    """(attempt, whether it is new). A worker draws its instance; limits and clock count from `open`.

    An unfinished attempt is handed out again, so that opening twice uses one. The enrolment's row is locked, so
    that of many openings at the last attempt one wins, on every database.
    """
    if seed is not None and not practice:
        raise InvalidInput([("/seed", "only a practice attempt has a public seed")])
    lock_enrollment(learner=learner, offering=offering)
    if offering.course_id != task.activity.course_id:
        raise InvalidInput([("/offering", "is a class of another course")])
    if not offering.is_open:
        raise Closed(f"{offering} is closed.")
    rows = TaskAttempt.objects.filter(task=task, offering=offering, learner=learner, practice=practice)
    unfinished = rows.filter(state__in=[TaskAttempt.State.PREPARING, TaskAttempt.State.OPEN]).first()
    if unfinished is not None and not practice and not retire_if_void(unfinished):
        return unfinished, False
    preparing = TaskAttempt.objects.filter(learner=learner, state=TaskAttempt.State.PREPARING).count()
    if preparing >= settings.RUNS_ACTIVE_PER_LEARNER:
        raise TooMany(
            f"At most {settings.RUNS_ACTIVE_PER_LEARNER} attempts are prepared at a time; wait for one."
        )
    # What could not be prepared was our fault, and does not count.
    used = rows.exclude(state=TaskAttempt.State.FAILED).count()
    if not practice and used >= task.attempts_allowed:
        raise UsedUp(f"All {task.attempts_allowed} attempts of this task are used.")
    number = (rows.aggregate(last=Max("number"))["last"] or 0) + 1
    if practice:
        drawn = seed if seed is not None else number
    else:
        drawn = draw_seed(task=task, offering=offering, learner=learner, number=number)
    attempt = TaskAttempt.objects.create(
        task=task, offering=offering, learner=learner, practice=practice, number=number, draw_seed=drawn
    )
    dispatch.on_commit(partial(dispatch.send_preparation, attempt.pk))
    return attempt, True


def why_void(attempt: TaskAttempt) -> str:
    """Why no run of an open attempt could be judged, none of it the learner's doing; empty where one could."""
    if attempt.state != TaskAttempt.State.OPEN:
        return ""
    if attempt.is_outdated:
        return "The lab was renewed after this attempt was drawn."
    if drawn_traces(attempt).count() < len(drawn_digests(attempt)):
        return "The trace that this attempt was drawn from is gone."
    return ""


def why_ended(attempt: TaskAttempt) -> str:
    """As why_void; empty also while a run is under way, which is left to it."""
    why = why_void(attempt)
    return "" if why and attempt.runs.active().exists() else why


def retire_if_void(attempt: TaskAttempt) -> bool:
    """End an attempt of which no run can be judged, unless one is under way, or was graded since; it does not count."""
    why = why_ended(attempt)
    if not why:
        return False
    still_open = TaskAttempt.objects.filter(pk=attempt.pk, state=TaskAttempt.State.OPEN)
    return bool(still_open.update(state=TaskAttempt.State.FAILED, error=f"{why} {NOT_COUNTED}"))


def attempts_left(*, learner: Learner, task: LabTask, offering: Offering) -> int:
    used = TaskAttempt.objects.filter(task=task, offering=offering, learner=learner, practice=False)
    return max(0, task.attempts_allowed - used.exclude(state=TaskAttempt.State.FAILED).count())


@transaction.atomic
def submit_run(
    *,
    learner: Learner,
    lab: Lab,
    params: Any,
    prediction: Any = None,
    artefact: Any = None,
    task_attempt: TaskAttempt | None = None,
    seed: int | None = None,
    varied_from: Run | None = None,
) -> Run:
    """Validate and queue a run. Nothing stays behind where a value is refused.

    The learner's row is locked while the limit of active runs is counted.
    """
    lock_learner(learner=learner)
    if Run.objects.for_learner(learner).active().count() >= settings.RUNS_ACTIVE_PER_LEARNER:
        raise TooMany(
            f"At most {settings.RUNS_ACTIVE_PER_LEARNER} runs at a time; wait for one, or cancel it."
        )
    if task_attempt is None:
        for name, value in (("prediction", prediction), ("artefact", artefact)):
            if value is not None:
                raise InvalidInput([(f"/{name}", "belongs to a task; a free run takes none")])
        run = Run(learner=learner, lab=lab, params=check_params(lab.job, params), seed=seed or 0)
        run.varied_from = varied_from
    else:
        run = submit_for_attempt(learner, lab, task_attempt, params, prediction, artefact, seed)
    run.params, traces = resolve_traces(learner, lab, run.params, granted=granted_traces(run))
    run.engine_version = catalog.engine_version(lab.slug)
    run.is_long = lab.job.expected_seconds(lab.job.params.model_validate(run.params)) > settings.RUN_LONG_S
    run.save()
    if traces:
        run.traces.set(traces)
    log.info("run %s: queued for %s", run.public_id, lab.slug)
    dispatch.on_commit(partial(dispatch.send_run, run.pk))
    return run


def drawn_digests(attempt: TaskAttempt) -> set[str]:
    """Hashes of the traces that its instance names; none while it is being prepared."""
    return digests_in(attempt.task.lab, attempt.instance["params"]) if attempt.instance else set()


def drawn_traces(attempt: TaskAttempt) -> QuerySet[TraceFile]:
    return TraceFile.objects.filter(digest__in=drawn_digests(attempt))


def granted_traces(run: Run) -> QuerySet[TraceFile]:
    """Files that this new run may read whoever holds them now: those that its attempt was drawn from, and those that
    the run which it varies has read.
    """
    if run.task_attempt is not None:
        return drawn_traces(run.task_attempt)
    return run.varied_from.traces.all() if run.varied_from else TraceFile.objects.none()


def submit_for_attempt(
    learner: Learner,
    lab: Lab,
    task_attempt: TaskAttempt,
    params: Any,
    prediction: Any,
    artefact: Any,
    seed: int | None,
) -> Run:
    """The run of a task's attempt, unsaved; locks its prediction. Inside submit_run's transaction."""
    attempt = TaskAttempt.objects.select_for_update().get(pk=task_attempt.pk)
    if attempt.task.lab_id != lab.pk:
        raise InvalidInput([("/task_attempt", f"belongs to the lab {attempt.task.lab.slug}")])
    if seed is not None:
        raise InvalidInput([("/seed", "is drawn by the task")])
    refuse_unless_open(attempt)
    assert attempt.instance is not None  # the table's own constraint
    drawn = attempt.instance["params"]
    checked = check_submission(lab.job, attempt.task.task_kind, drawn, params, prediction, artefact)
    if attempt.prediction is not None and attempt.prediction != checked.prediction:
        why = "was locked by the first run of this attempt"
        raise Conflict(f"The prediction {why}.", errors=[("/prediction", why)])
    attempt.prediction = checked.prediction
    attempt.save(update_fields=["prediction"])
    return Run(
        learner=learner,
        lab=lab,
        task_attempt=attempt,
        params=checked.params,
        prediction=checked.prediction,
        artefact=checked.artefact,
        seed=attempt.instance["seed"],
    )


def refuse_unless_open(attempt: TaskAttempt) -> None:
    """Conflict, UsedUp or Closed where the attempt takes no run now."""
    if attempt.state == TaskAttempt.State.PREPARING:
        raise Conflict("The attempt is still being prepared.")
    if attempt.state == TaskAttempt.State.FAILED:
        raise Conflict("The attempt could not be prepared and counts nowhere; open another.")
    if attempt.state == TaskAttempt.State.GRADED:
        raise UsedUp("This attempt is used up: its run has been graded.")
    if why := why_void(attempt):
        raise Conflict(f"{why} {NOT_COUNTED}")
    if not attempt.offering.is_open:
        raise Closed(f"{attempt.offering} is closed.")
    if attempt.runs.active().exists():
        raise Conflict("A run of this attempt is under way.")


def cancel_run(*, run: Run) -> Run:
    """End a queued or running run; its worker sees the row and kills the child. The attempt stays open."""
    won = Run.objects.filter(pk=run.pk, state__in=Run.ACTIVE).update(
        state=Run.State.CANCELLED, reason="Cancelled by the learner.", lease=None, finished_at=Now()
    )
    run.refresh_from_db()
    if not won and run.state != Run.State.CANCELLED:
        raise Conflict(f"The run is already {run.get_state_display().lower()}.")
    return run
