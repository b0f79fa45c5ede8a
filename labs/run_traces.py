"""Which recorded traces a run reads: named by its parameters, and at hand when a worker computes it.

A lab takes traces where a property of its parameters has `format: "trace"`. Its values are words of the lab's own, as
`synthetic`; `default`, for the trace that the author chose; and the SHA-256 of a file.
"""

from typing import Any

from django.db.models import QuerySet

from labs import trace_storage
from labs.models import Lab, LabTask, Run, Trace, TraceFile
from labs.validation import Fault
from quiz.errors import Conflict, InvalidInput, pointer_part
from quiz.models import Learner
from simworkers.inputs import WORD_DEFAULT, is_digest, trace_fields
from simworkers.jobs import Job
from simworkers.trace_summary import TraceSummary


def resolve_traces(
    learner: Learner, lab: Lab, params: dict[str, Any], *, granted: QuerySet[TraceFile]
) -> tuple[dict[str, Any], list[TraceFile]]:
    """(parameters that name every trace by its hash, its files, locked until the transaction ends).

    granted: files that may be read also where the learner neither holds them nor is offered them any more.
    Raises InvalidInput with a pointer to each that is unknown, somebody else's, or refused, and to what keeps the lab
    from playing it; Conflict, likewise with a pointer, while one is being checked.
    """
    found, files, errors = dict(params), [], []
    for name in trace_fields(lab.job.params):
        value, pointer = params.get(name), f"/params/{pointer_part(name)}"
        try:
            digest = default_digest(lab) if value == WORD_DEFAULT else value
            if is_digest(digest):
                files.append(readable_file(learner, str(digest), granted, pointer))
                found[name] = digest
        except ValueError as exc:
            errors.append((pointer, str(exc)))
    if errors := errors or faults_of(lab.job, found, files):
        raise InvalidInput(errors)
    return found, files


def default_digest(lab: Lab) -> str:
    """ValueError where the author has chosen none."""
    if lab.default_trace is None:
        raise ValueError("this lab has no default trace")
    return lab.default_trace.file.digest


def readable_file(learner: Learner, digest: str, granted: QuerySet[TraceFile], pointer: str) -> TraceFile:
    """The file, locked against removal, if the learner may use it and it is ready. ValueError says why not; Conflict
    that it is not checked yet, which is no fault of the request: the same one may succeed later.
    """
    file = TraceFile.objects.select_for_update().filter(digest=digest).first()
    shown = Trace.objects.shown_to(learner).filter(file=file)
    if file is None or not (granted.filter(pk=file.pk).exists() or shown.exists()):
        raise ValueError("is none of your traces, nor one that is offered")
    if file.state == TraceFile.State.CHECKING:
        why = "is still being checked; wait until it is ready"
        raise Conflict(f"The trace {why}.", errors=[(pointer, why)])
    if file.state != TraceFile.State.READY:
        raise ValueError("was refused when it was checked")
    return file


def faults_of(job: Job, params: dict[str, Any], files: list[TraceFile]) -> list[Fault]:
    """Why the lab itself cannot play these files under these parameters, as far as their summaries tell."""
    checked = job.params.model_validate(params)
    found = [job.trace_fault(checked, TraceSummary.model_validate(file.summary)) for file in files]
    return [(f"/params/{pointer_part(name)}", why) for name, why in filter(None, found)]


def files_of_run(run: Run) -> dict[str, str]:
    """hash → path on this machine, of every trace that the run's parameters name. Raises Unreadable."""
    return files_of_params(run.lab, run.params)


def files_of_params(lab: Lab, params: dict[str, Any]) -> dict[str, str]:
    """As of a run with these parameters."""
    return files_at_hand(digests_in(lab, params))


def digests_in(lab: Lab, params: dict[str, Any]) -> set[str]:
    """The hashes that these parameters name, in the place of a trace."""
    values = {params.get(name) for name in trace_fields(lab.job.params)}
    return {str(value) for value in values if is_digest(value)}


def locked_files(digests: set[str]) -> list[TraceFile]:
    """Their rows, locked against removal until the transaction ends. Unreadable where one is gone."""
    # In the order of every lock of several.
    files = list(TraceFile.objects.select_for_update().filter(digest__in=digests).order_by("pk"))
    if missing := digests - {file.digest for file in files}:
        raise trace_storage.Unreadable(f"no trace has the hash {', '.join(sorted(missing))}")
    return files


def files_to_draw(task: LabTask) -> dict[str, str]:
    """Of the lab's default trace, by its hash and by the word `default`; none where the lab has none, or where tasks of
    this kind draw nothing from it. Raises Unreadable.
    """
    trace = task.lab.default_trace
    if trace is None or not task.task_kind.draws_from_trace:
        return {}
    digest = trace.file.digest
    files = files_at_hand({digest})
    return files | {WORD_DEFAULT: files[digest]}


def files_at_hand(digests: set[str]) -> dict[str, str]:
    rows = TraceFile.objects.in_bulk(list(digests), field_name="digest")
    if missing := digests - rows.keys():
        raise trace_storage.Unreadable(f"no trace has the hash {', '.join(sorted(missing))}")
    return {digest: str(trace_storage.local_path(row)) for digest, row in rows.items()}


def pinned(lab: Lab, params: dict[str, Any]) -> dict[str, Any]:
    """With the hash in the place of `default`, so that an instance keeps the trace that it was drawn from."""
    names = [name for name in trace_fields(lab.job.params) if params.get(name) == WORD_DEFAULT]
    return params | {name: default_digest(lab) for name in names}
