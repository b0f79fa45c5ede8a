"""What a worker does with a run: claim it, let the child compute, judge, finish in one transaction.

A run that our side spoils goes back to the queue until its tries are used, then it is `failed` and the attempt is
given back; it is never a zero.
"""

import functools
import json
import logging
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Coalesce, Now
from pydantic import ValidationError as InvalidRubric

from labs import dispatch, rubric, runner
from labs.criteria import Unmeasured
from labs.models import LabTask, Run, TaskAttempt, Worker
from labs.outages import persistently, tolerant
from labs.run_traces import files_of_run
from labs.scheduling import claim_next, wake_for_waiting
from labs.trace_checks import wake_for_check
from labs.trace_storage import Unreadable
from quiz.services import record_grade
from simworkers import catalog, jobs, logs

log = logging.getLogger(__name__)


# What a learner reads; the fault itself, which may quote hidden values, is for staff.
WHAT_FAILED = {
    "memory": "The simulation needed more memory than it may take.",
    "crash": "The simulation crashed.",
    "invalid": "The simulation refused its parameters.",
    "input": "The trace that it reads could not be fetched. That is our fault, not yours.",
    "version": "It was computed by another version of the lab.",
}
UNUSABLE = "The simulation's result could not be used. That is our fault, not yours."


class Unusable(Exception):
    """The child handed back something that cannot be a result: our fault."""


def limits() -> runner.Limits:
    return runner.Limits(time_s=settings.RUN_TIME_LIMIT_S, memory_bytes=settings.RUN_MEMORY_LIMIT_BYTES)


def execute_next_run(worker: Worker, *, sent_for: int | None = None) -> None:
    """Claim the run whose turn it is and take it to a terminal state. Nothing where there is none."""
    if run := persistently(lambda: claim_next(worker)):
        with log_ids(run, sent_for):
            execute_run(run)
        if run.is_long:  # a check first, and behind a check a run: so neither waits for all of the other
            persistently(wake_for_check)
            persistently(lambda: wake_for_waiting(worker))


def log_ids(run: Run, sent_for: int | None) -> AbstractContextManager[None]:
    """Lines name the run, and the request that asked for it unless its message woke us for another run."""
    attempt = str(run.task_attempt.public_id) if run.task_attempt else None
    request = {} if run.pk == sent_for else {"request": None}
    return logs.bind(run=str(run.public_id), attempt=attempt, **request)


def execute_run(run: Run) -> None:
    """Take a claimed run to a terminal state, or back to the queue."""
    log.info("run %s: try %d", run.public_id, run.tries)
    try:
        report, reused = persistently(lambda: reusable_report(run)), True
        if report is None:
            report, reused = compute_report(run), False
        persistently(lambda: finish_run(run, report, reused=reused))
    except runner.JobStopped:
        log.info("run %s: stopped; it was cancelled, or another worker has it", run.public_id)
    except runner.JobTimedOut:
        reason = f"It took longer than {settings.RUN_TIME_LIMIT_S} seconds."
        persistently(lambda: end_run(run, Run.State.TIMED_OUT, reason))
    except runner.JobFailed as exc:
        log.warning("run %s: %s: %s", run.public_id, exc.kind, exc.message)
        reason, fault = what_failed(run, exc), str(exc)
        if exc.kind == "invalid":  # as it would be next time
            persistently(lambda: end_run(run, Run.State.FAILED, reason, fault))
        else:
            persistently(lambda: retry_or_fail(run, reason, fault))
    except (Unusable, Unmeasured, InvalidRubric) as exc:
        log.error("run %s: %s", run.public_id, exc)
        # The same parameters and seed would give the same report: another try cannot help.
        fault = str(exc)
        persistently(lambda: end_run(run, Run.State.FAILED, UNUSABLE, fault))


def what_failed(run: Run, failure: runner.JobFailed) -> str:
    """For the learner, who chose all parameters of a free run: a picture that cannot be decoded is named there."""
    reason = WHAT_FAILED[failure.kind]
    if failure.kind == "invalid" and run.task_attempt is None:
        return f"{reason} {failure.message}"
    return reason


def compute_report(run: Run) -> dict[str, Any]:
    """Run the simulation in the supervised child, renewing the lease while it computes."""
    report = runner.call(
        "run_job",
        {"lab": run.lab.slug, "params": run.params, "seed": run.seed, "files": input_files(run)},
        limits=limits(),
        on_beat=tolerant(lambda steps: run.beat(settings.RUN_LEASE_S, steps)),
        beat_s=settings.RUN_HEARTBEAT_S,
    )
    checked = checked_report(run, report)
    if checked["engine_version"] != run.engine_version:
        # Files were replaced under a living worker, whose simulation server was started again since.
        found = f"computed by {checked['engine_version']}, submitted for {run.engine_version}: restart this worker"
        raise runner.JobFailed("version", found)
    return checked


def input_files(run: Run) -> dict[str, str]:
    """hash → path of what the run reads beside its parameters. JobFailed("input") where that cannot be had."""
    try:
        return persistently(lambda: files_of_run(run))
    except Unreadable as exc:
        raise runner.JobFailed("input", str(exc)) from exc


def checked_report(run: Run, report: Any) -> dict[str, Any]:
    """The report, if it has the lab's shape, is no larger than we keep, and no invariant is broken."""
    try:
        parsed = jobs.Report.model_validate(report)
        run.lab.job.metrics.model_validate(parsed.metrics)
    except ValueError as exc:
        raise Unusable(f"the report has not the lab's shape: {exc}") from exc
    size = len(json.dumps(report))
    if size > settings.RUN_REPORT_LIMIT_BYTES:
        raise Unusable(f"the report has {size} bytes; at most {settings.RUN_REPORT_LIMIT_BYTES} are kept")
    for name, invariant in parsed.invariants.items():
        if invariant.state == "broken":
            raise Unusable(f"the invariant {name} is broken: {invariant.first_event}")
    return parsed.model_dump(mode="json")


def reusable_report(run: Run) -> dict[str, Any] | None:
    """The report of an equal earlier run, for runs that count nowhere; graded attempts always compute.

    Equal means: lab, engine version, parameters, seed, torch version and CPU capability.
    """
    if run.task_attempt is not None and not run.task_attempt.practice:
        return None
    here = arithmetic()
    twin = (
        Run.objects.filter(
            lab=run.lab,
            state=Run.State.GRADED,
            engine_version=catalog.engine_version(run.lab.slug),
            seed=run.seed,
            params=run.params,
            provenance__torch=here["torch"],
            provenance__cpu_capability=here["cpu_capability"],
        )
        .exclude(report=None)
        .order_by("pk")
        .first()
    )
    if twin is None or twin.report is None:
        return None
    return {**twin.report, "provenance": twin.provenance}


@functools.cache
def arithmetic() -> dict[str, str]:
    """torch version and CPU capability of this worker's simulations."""
    answer: dict[str, str] = runner.call("arithmetic", {}, limits=limits(), on_beat=lambda steps: True)
    return answer


def rubric_of(run: Run) -> rubric.Rubric | None:
    """The rubric of a task's run, as it stands now: it may have been mended while the run computed."""
    if run.task_attempt is None:
        return None
    return LabTask.objects.get(pk=run.task_attempt.task_id).parsed_rubric()


def finish_run(run: Run, report: dict[str, Any], *, reused: bool = False) -> bool:
    """Run, score and grade in one transaction, only if this worker still holds the lease."""
    criteria = rubric_of(run)
    sheet = rubric.grade(report["metrics"], criteria, prediction=run.prediction) if criteria else None
    score: Decimal | None = sheet.score if sheet else None
    kept = {key: value for key, value in report.items() if key != "provenance"}
    with transaction.atomic():
        won = run.held().update(
            state=Run.State.GRADED,
            report=kept,
            provenance=report["provenance"],
            engine_version=report["engine_version"],
            reused=reused,
            sheet=sheet.model_dump(mode="json") if sheet else None,
            score=score,
            rubric_hash=criteria.fingerprint if criteria else "",
            reason="",
            fault="",
            steps_done=Coalesce("steps_total", "steps_done"),
            lease=None,
            lease_expires_at=None,
            finished_at=Now(),
        )
        if not won:
            log.info("run %s: finished too late; the result is dropped", run.public_id)
            return False
        attempt = run.task_attempt
        if attempt is not None:
            TaskAttempt.objects.filter(pk=attempt.pk).update(state=TaskAttempt.State.GRADED)
            if not attempt.practice:
                assert score is not None
                record_grade(
                    learner=run.learner,
                    offering=attempt.offering,
                    activity=attempt.task.activity,
                    score=score,
                    source=f"run {run.public_id}",
                )
        transaction.on_commit(lambda: dispatch.send_drawing(run.pk), robust=True)
    return True


def retry_or_fail(run: Run, reason: str, fault: str) -> None:
    """Back to the queue, or to `failed` after the last try. The attempt stays open either way."""
    if run.tries >= settings.RUN_MAX_TRIES:
        end_run(run, Run.State.FAILED, f"{reason} It was tried {run.tries} times.", fault)
    elif run.held().update(
        state=Run.State.QUEUED,
        lease=None,
        lease_expires_at=None,
        sent_at=None,
        reason=reason,
        fault=fault[:10_000],
    ):
        dispatch.send_run(run.pk)


def end_run(run: Run, state: Run.State, reason: str, fault: str = "") -> bool:
    """A terminal state without a result, if this worker still holds the lease."""
    ended = run.held().update(
        state=state,
        reason=reason,
        fault=fault[:10_000],
        lease=None,
        lease_expires_at=None,
        finished_at=Now(),
    )
    return bool(ended)
