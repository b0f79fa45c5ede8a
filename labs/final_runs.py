"""What a worker does with a final run: draw the final instance, compute what was handed in on it, keep the score.

The instance lives in the memory of worker processes alone. A run that our side spoils is tried again, then it is
`failed` and staff may have it computed again; what the learner's own settings spoil is `refused` at once, with a reason
that quotes nothing of the instance. The graded run, its attempt and its grade are read and never written.
"""

import logging
from typing import Any

from django.conf import settings
from django.db.models.functions import Now

from labs import dispatch, runner
from labs.criteria import Unmeasured, number
from labs.execution import UNUSABLE, WHAT_FAILED, Unusable, checked_report, limits
from labs.leaderboard import boards, edition, final_seed, gates
from labs.models import FinalRun, LabTask, Run
from labs.outages import persistently, tolerant
from labs.run_traces import files_of_params, files_to_draw, pinned
from labs.trace_storage import Unreadable
from labs.validation import check_artefact, check_task_params
from quiz.errors import InvalidInput
from simworkers import logs
from simworkers.jobs import PreparedInstance

log = logging.getLogger(__name__)

State = FinalRun.State
# Scores that differ in the last bits, as those of two machines may, are equal: then the earlier one stands first.
SIGNIFICANT_DIGITS = 9


# edition → final instance: drawing one may take many simulations, which choose an instance that tells people apart.
_drawn: dict[str, PreparedInstance] = {}
DRAWN_KEPT = 16


class Refused(Exception):
    """What was handed in cannot be ranked; why, for the learner. The cause may quote the instance: it is for staff."""


def compute_final_run(final_id: int) -> None:
    """Take a waiting final run to a terminal state, or leave it waiting for the next try."""
    final = persistently(lambda: takeable(final_id))
    if final is None or not persistently(lambda: final.claim(settings.RUN_LEASE_S)):
        return
    with logs.bind(run=str(final.run.public_id)):
        if final.tries > settings.RUN_MAX_TRIES:
            fail(final, "It was interrupted too often, which is our fault.", "interrupted too often")
        else:
            carry_out(final)
    if waiting := persistently(lambda: next_of_learner(final)):
        dispatch.send_final_run(waiting.pk)


def takeable(final_id: int) -> FinalRun | None:
    """The row, if this process can compute it now: one of a learner at a time, so that nobody fills the workers."""
    rows = FinalRun.objects.computable().select_related(
        "run", "run__lab", "entry__learner", "entry__task__activity", "entry__task__lab__default_trace__file"
    )
    final = rows.filter(pk=final_id).first()
    if final is None or not is_present(final):
        return None
    theirs = FinalRun.objects.filter(entry__learner=final.entry.learner, state=State.WAITING)
    return None if theirs.filter(lease_expires_at__gte=Now()).exists() else final


def is_present(final: FinalRun) -> bool:
    """Of the edition that is ranked now, as this process knows it: another version's worker computes its own."""
    task = final.entry.task
    is_on = task.leaderboard and task.published and task.readable_rubric() is not None
    return is_on and edition(task) == final.edition


def next_of_learner(final: FinalRun) -> FinalRun | None:
    rows = FinalRun.objects.computable().filter(entry=final.entry_id, edition=final.edition)
    return rows.exclude(pk=final.pk).order_by("pk").first()


def carry_out(final: FinalRun) -> None:
    """Of a claimed final run. Whatever goes wrong ends in its own row."""
    try:
        score = compute_score(final)
        persistently(lambda: final.end(State.READY, score=score, reason="", fault=""))
    except runner.JobStopped:
        log.info("final run stopped; its entry was withdrawn, or another worker has it")
    except Refused as exc:
        refuse(final, str(exc), str(exc.__cause__ or exc))
    except runner.JobTimedOut:
        refuse(final, f"It took longer than {settings.RUN_TIME_LIMIT_S} seconds.", "timed out")
    except Unusable as exc:
        # The same parameters and seed would give the same report: another try cannot help.
        fail(final, UNUSABLE, str(exc))
    except runner.JobFailed as exc:
        again_or_fail(final, f"{WHAT_FAILED[exc.kind]} That is our fault.", exc)
    except (Unreadable, ValueError) as exc:
        again_or_fail(final, "The final instance could not be drawn, which is our fault.", exc)


def compute_score(final: FinalRun) -> float:
    """The metric on the final instance. Raises Refused, Unusable, and what the runner and the storage raise."""
    task = final.entry.task
    instance = final_instance(final)
    params = handed_in(final.run, task, instance.params)
    job = {
        "lab": task.lab.slug,
        "params": params,
        "seed": instance.seed,
        "files": persistently(lambda: files_of_params(task.lab, params)),
    }
    try:
        report = checked_report(final.run, call("run_job", job, final))
    except runner.JobFailed as exc:
        if exc.kind != "invalid":
            raise
        raise Refused("The simulation refused your settings on the final instance.") from exc
    if report["engine_version"] != final.engine_version:
        raise runner.JobFailed("version", f"computed by {report['engine_version']}: restart this worker")
    return ranked_score(task, report["metrics"])


def final_instance(final: FinalRun) -> PreparedInstance:
    """The same for every learner of the task; drawn once in a process and edition."""
    instance = _drawn.get(final.edition)
    if instance is None:
        instance = draw_final_instance(final)
        while len(_drawn) >= DRAWN_KEPT:
            _drawn.pop(next(iter(_drawn)), None)  # of the edition that was drawn longest ago
        _drawn[final.edition] = instance
    return instance


def forget_instances() -> None:
    _drawn.clear()


def draw_final_instance(final: FinalRun) -> PreparedInstance:
    task = final.entry.task
    request = {
        "lab": task.lab.slug,
        "kind": task.kind,
        "seed": final_seed(task),
        # A trace that cannot be read fails it: drawn without, the scores of one edition would not compare.
        "files": persistently(lambda: files_to_draw(task)),
    }
    try:
        prepared = PreparedInstance.model_validate(call("prepare_task", request, final))
    except (runner.JobFailed, runner.JobTimedOut) as exc:
        # Nothing of the learner's went in, so neither a refusal nor the time it takes is theirs.
        raise ValueError(str(exc) or "drawing it took too long") from exc
    return prepared.model_copy(update={"params": pinned(task.lab, prepared.params)})


def call(entry: str, kwargs: dict[str, Any], final: FinalRun) -> Any:
    """In the supervised child, with the limits of any run, renewing the lease meanwhile."""
    return runner.call(
        entry,
        kwargs,
        limits=limits(),
        on_beat=tolerant(lambda steps: final.beat(settings.RUN_LEASE_S)),
        beat_s=settings.RUN_HEARTBEAT_S,
    )


def handed_in(run: Run, task: LabTask, drawn: dict[str, Any]) -> dict[str, Any]:
    """All parameters: those of the final instance, and over them what the graded run's learner chose."""
    job, kind = task.lab.job, task.task_kind
    # A run from before an upgrade lacks what the task has opened since.
    chosen = {name: run.params[name] for name in kind.open_parameters if name in run.params}
    try:
        artefact = check_artefact(kind, drawn, run.artefact) or {}
        return check_task_params(job, kind, {**drawn, **artefact}, chosen)
    except InvalidInput as exc:
        raise Refused("What you handed in does not fit the final instance.") from exc


def ranked_score(task: LabTask, metrics: dict[str, Any]) -> float:
    """Refused where the task's demands are missed, or the metric is no finite number."""
    try:
        for gate in gates(task):
            if gate.share(metrics, None) != 1:
                raise Refused(f"On the final instance it misses what the task requires: {gate.title}.")
        value = number(metrics, task.leaderboard_metric)
    except Unmeasured as exc:
        name = task.leaderboard_metric.replace("_", " ")
        raise Refused(f"On the final instance the metric ({name}) is no finite number.") from exc
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


def refuse(final: FinalRun, reason: str, fault: str) -> None:
    log.info("final run refused: %s", fault)
    persistently(lambda: final.end(State.REFUSED, reason=reason, fault=fault[:10_000]))


def fail(final: FinalRun, reason: str, fault: str) -> None:
    log.error("final run failed: %s", fault)
    persistently(lambda: final.end(State.FAILED, reason=reason, fault=fault[:10_000]))


def again_or_fail(final: FinalRun, reason: str, exc: Exception) -> None:
    """`failed` after the last try; before, the sweeper sends it once more."""
    fault = str(exc)[:10_000]
    if final.tries >= settings.RUN_MAX_TRIES:
        fail(final, f"{reason} It was tried {final.tries} times.", fault)
        return
    log.warning("final run, try %d: %s", final.tries, fault)
    values: dict[str, Any] = {"lease": None, "lease_expires_at": None, "sent_at": None, "fault": fault}
    persistently(lambda: final.held().update(**values))


# What the sweeper does -----------------------------------------------------------------------------


def send_unheard_final_runs(free: int) -> None:
    """Send again, no more than could begin: a new edition makes many at once, and graded runs come first."""
    waiting = FinalRun.objects.computable().filter(edition__in=[edition(task) for task in boards()])
    unheard = waiting.unheard(settings.SWEEP_RESEND_S)
    on_their_way = waiting.count() - unheard.count()
    for pk in unheard.order_by("pk").values_list("pk", flat=True)[: max(0, free - on_their_way)]:
        # Of several sweepers one sends.
        if unheard.filter(pk=pk).update(sent_at=Now()) and not dispatch.send_final_run(pk):
            FinalRun.objects.filter(pk=pk, state=State.WAITING).update(sent_at=None)
