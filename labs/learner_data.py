"""All that the site holds of a person, course and labs together: handed out, and erased."""

from operator import attrgetter
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from labs.models import Explanation, LeaderboardEntry, Run, TaskAttempt, Trace, TraceFile
from labs.traces import remove_unneeded
from quiz.models import Learner
from quiz.services.learner_data import (
    course_data,
    erase_course_data,
    lock_person,
    lock_rows,
    scrub_admin_log,
    stamp,
    text_of,
)


def learner_data(learner: Learner, *, reports: bool = False) -> dict[str, Any]:
    """As JSON can say it. `reports`: with the whole report of every run, up to 2 MiB each.

    What is hidden until a run is graded is left out here too: whoever asks for their data has an open attempt, perhaps.
    """
    attempts = TaskAttempt.objects.filter(learner=learner).select_related("task__activity", "offering")
    traces = Trace.objects.held_by(learner).order_by("pk")
    runs = Run.objects.shown_to(learner).select_related("explanation").order_by("pk")
    return course_data(learner=learner) | {
        "task_attempts": [attempt_data(row) for row in attempts.order_by("pk")],
        "runs": [run_data(row, reports) for row in runs.iterator(chunk_size=20)],
        "leaderboard_entries": [entry_data(row) for row in entries_of(learner)],
        "traces": [trace_data(row) for row in traces.select_related("file")],
    }


def attempt_data(attempt: TaskAttempt) -> dict[str, Any]:
    return {
        "public_id": str(attempt.public_id),
        "task": attempt.task.slug,
        "class": attempt.offering.slug,
        "number": attempt.number,
        "practice": attempt.practice,
        "state": attempt.state,
        "visible": attempt.visible,
        "prediction": attempt.prediction,
        "created_at": attempt.created_at.isoformat(),
    }


def run_data(run: Run, reports: bool) -> dict[str, Any]:
    values = {
        "public_id": str(run.public_id),
        "lab": run.lab.slug,
        "task_attempt": str(run.task_attempt.public_id) if run.task_attempt else None,
        "state": run.state,
        "reason": run.reason,
        "params": run.disclosed_params(),
        "seed": run.seed if run.is_disclosed else None,
        "artefact": run.artefact,
        "prediction": run.prediction,
        "score": text_of(run.score),
        "sheet": run.sheet,
        "created_at": run.created_at.isoformat(),
        "finished_at": stamp(run.finished_at),
        "explanation": explanation_data(getattr(run, "explanation", None)),
    }
    return values | ({"report": run.report} if reports else {})


def explanation_data(explanation: Explanation | None) -> dict[str, Any] | None:
    if explanation is None:
        return None
    return {
        "text": explanation.text,
        "points": explanation.points,
        "self_check": explanation.self_check,
        "staff_check": explanation.staff_check,
        "staff_comment": explanation.staff_comment,
        "written_at": explanation.written_at.isoformat(),
    }


def entries_of(learner: Learner) -> QuerySet[LeaderboardEntry]:
    rows = LeaderboardEntry.objects.filter(learner=learner).select_related("task__activity", "offering")
    return rows.prefetch_related("final_runs__run").order_by("pk")


def entry_data(entry: LeaderboardEntry) -> dict[str, Any]:
    return {
        "task": entry.task.slug,
        "class": entry.offering.slug,
        "display_name": entry.display_name,
        "created_at": entry.created_at.isoformat(),
        "final_runs": [
            {
                "run": str(row.run.public_id),
                "state": row.state,
                "score": row.score,
                "reason": row.reason,
                "engine_version": row.engine_version,
                "computed_at": stamp(row.computed_at),
            }
            for row in sorted(entry.final_runs.all(), key=attrgetter("pk"))
        ],
    }


def trace_data(trace: Trace) -> dict[str, Any]:
    """Not the file: whoever handed it in has it, and its hash tells which it is."""
    return {
        "public_id": str(trace.public_id),
        "name": trace.name,
        "sha256": trace.file.digest,
        "bytes": trace.file.bytes_sent,
        "state": trace.file.state,
        "reason": trace.file.reason,
        "summary": trace.file.summary,
        "created_at": trace.created_at.isoformat(),
    }


@transaction.atomic
def erase_learner(learner: Learner) -> dict[str, int]:
    """Erase the person and all that they handed in; how many rows of what went.

    A run that is being computed is stopped: its worker finds no row that it holds. Conflict for staff.
    """
    runs, attempts = Run.objects.filter(learner=learner), TaskAttempt.objects.filter(learner=learner)
    entries = LeaderboardEntry.objects.filter(learner=learner)
    lock_person(learner)
    lock_rows(entries, runs, attempts)  # in the order in which others lock them
    traces = Trace.objects.held_by(learner)
    theirs = Q(holds__learner=learner) | Q(runs__learner=learner) | Q(attempts__learner=learner)
    files = TraceFile.objects.filter(theirs)
    read = list(files.values_list("pk", flat=True))
    gone = {
        "runs": runs.count(),
        "task attempts": attempts.count(),
        "leaderboard entries": entries.count(),
        "traces": traces.count(),
    }
    scrub_admin_log(runs, attempts, traces, entries, Explanation.objects.filter(run__learner=learner))
    entries.delete()  # and with them final runs
    runs.delete()  # and with them figures, explanations and tickets
    attempts.delete()
    traces.delete()
    remove_unneeded(TraceFile.objects.filter(pk__in=read))
    return gone | erase_course_data(learner=learner)
