"""From an attempt of a task to a free run of its lab: what the form there starts from. Discloses nothing."""

from typing import Any

from django.urls import reverse

from labs.models import Run, TaskAttempt, Trace
from simworkers.inputs import is_digest, trace_fields


def explore_path(attempt: TaskAttempt) -> str | None:
    """The lab's page, its form filled from the attempt; None while, or where, there is no instance to be judged.

    None too where it plays a recorded trace that is no longer its learner's to use: the free run would be refused.
    """
    has_instance = attempt.state in (TaskAttempt.State.OPEN, TaskAttempt.State.GRADED)
    if not has_instance or not may_read_traces(attempt):
        return None
    return f"{reverse('lab-page', args=[attempt.task.lab.slug])}?attempt={attempt.public_id}#parameters"


def may_read_traces(attempt: TaskAttempt) -> bool:
    drawn = (attempt.instance or {}).get("params", {})
    read = {drawn[name] for name in trace_fields(attempt.task.lab.job.params) if is_digest(drawn.get(name))}
    readable = Trace.objects.shown_to(attempt.learner).filter(file__digest__in=read)
    return not read or len(read) == readable.values("file").distinct().count()


def start_values(attempt: TaskAttempt) -> dict[str, Any]:
    """Parameters of a free run. Of a graded attempt all that its run had, and its seed; before that what is shown."""
    graded = attempt.runs.filter(state=Run.State.GRADED).first()
    return {**graded.params, "seed": graded.seed} if graded else shown_values(attempt)


def shown_values(attempt: TaskAttempt) -> dict[str, Any]:
    """Of the drawn parameters those that the learner sees: in the visible part, or as what an open one starts from."""
    drawn = (attempt.instance or {}).get("params", {})
    visible, opened = attempt.visible or {}, attempt.task.task_kind.open_parameters
    return {
        name: value
        for name, value in drawn.items()
        if name in opened or (name in visible and visible[name] == value)
    }
