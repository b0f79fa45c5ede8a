"""What became of the runs. Uses Django's ORM: call `django.setup()` first."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.db import close_old_connections, connection
from django.db.models import Count
from django.db.utils import DatabaseError, InterfaceError

from labs.models import Run, TaskAttempt
from quiz.models import Grade, GradeChange
from tests.faults.entries import ENDLESS_SEED
from tests.faults.flow import Account

T = TypeVar("T")


def patiently(read: Callable[[], T], patience_s: float = 180.0) -> T:
    """The answer of a database that may just be restarting."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return read()
        except (DatabaseError, InterfaceError):
            if time.monotonic() > deadline:
                raise
            connection.close()
            time.sleep(0.3)
            close_old_connections()


def states() -> Counter[str]:
    rows = Run.objects.values("state").annotate(number=Count("pk"))
    return Counter({row["state"]: row["number"] for row in rows})


def active() -> int:
    """Runs and preparations that are not at their end."""
    preparing = TaskAttempt.objects.filter(state=TaskAttempt.State.PREPARING).count()
    return Run.objects.active().count() + preparing


def interrupted_thrice(run: Run) -> bool:
    return run.state == Run.State.FAILED and run.tries >= settings.RUN_MAX_TRIES


def count(account: Account, submitted: int) -> tuple[dict[str, int], list[str]]:
    """({what: how many}, a line for each run that is not as it should be)."""
    runs = list(Run.objects.select_related("task_attempt").defer("report", "provenance", "sheet"))
    known = {str(run.public_id) for run in runs}
    lost = [key for key in account.accepted if key not in known] + account.given_up
    never_picked = [run for run in runs if run.state == Run.State.QUEUED]
    stuck = [run for run in runs if run.state == Run.State.RUNNING]
    preparing = TaskAttempt.objects.filter(state=TaskAttempt.State.PREPARING)
    thrice = [run for run in runs if interrupted_thrice(run)]
    wrong = [run for run in runs if run.is_terminal and not ended_well(run)]
    doubled, unsound = grades_that_differ()
    attempts = [attempt for attempt in TaskAttempt.objects.all() if not is_sound(attempt)]
    numbers = {
        "submitted": submitted,
        "rows": len(runs),
        "graded": sum(run.state == Run.State.GRADED for run in runs),
        "timed out (endless)": sum(run.state == Run.State.TIMED_OUT for run in runs),
        "tries beyond the first": sum(max(0, run.tries - 1) for run in runs),
        "interrupted three times": len(thrice),
        "calls repeated": account.calls_repeated,
        "lost": len(lost) + len(never_picked),
        "doubled": len(doubled) + max(0, len(runs) - submitted),
        "stuck": len(stuck) + preparing.count(),
        "wrongly failed": len(wrong),
        "inconsistent": len(attempts) + len(unsound),
    }
    lines = [*map(str, lost), *doubled, *unsound]
    lines += [
        f"{run.public_id} {run.state} tries {run.tries}: {run.reason}" for run in never_picked + stuck + wrong
    ]
    lines += [f"attempt {a.public_id} {a.state} tries {a.tries}: {a.error}" for a in [*preparing, *attempts]]
    return numbers, lines


def ended_well(run: Run) -> bool:
    """An endless run must time out and every other be graded, unless it was interrupted three times."""
    expected = Run.State.TIMED_OUT if run.seed == ENDLESS_SEED else Run.State.GRADED
    return run.state == expected or interrupted_thrice(run)


def is_sound(attempt: TaskAttempt) -> bool:
    """Used up by exactly one graded run, or still the learner's."""
    if attempt.state == TaskAttempt.State.FAILED:
        return attempt.tries >= settings.RUN_MAX_TRIES
    graded = attempt.runs.filter(state=Run.State.GRADED).count()
    return graded == (1 if attempt.state == TaskAttempt.State.GRADED else 0)


def grades_that_differ() -> tuple[list[str], list[str]]:
    """(graded twice, not as the run says). Every learner of the harness has one attempt, hence one revision."""
    doubled = [f"grade {grade} has revision {grade.revision}" for grade in Grade.objects.exclude(revision=1)]
    changes = GradeChange.objects.values("grade").annotate(number=Count("pk")).exclude(number=1)
    doubled += [f"grade {row['grade']} has {row['number']} changes" for row in changes]
    twice: Any = Run.objects.filter(state=Run.State.GRADED, task_attempt__isnull=False).values("task_attempt")
    twice = twice.annotate(number=Count("pk")).exclude(number=1)
    doubled += [f"attempt {row['task_attempt']} has {row['number']} graded runs" for row in twice]
    scores = {
        (run.learner_id): run.score
        for run in Run.objects.filter(state=Run.State.GRADED, task_attempt__isnull=False)
    }
    grades = {grade.learner_id: grade.score for grade in Grade.objects.all()}
    unsound = [
        f"learner {key}: run {scores.get(key)}, grade {grades.get(key)}"
        for key in scores.keys() | grades.keys()
        if scores.get(key) != grades.get(key)
    ]
    return doubled, unsound
