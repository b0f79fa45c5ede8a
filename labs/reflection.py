"""After a graded run: explain it, check the explanation, and ask what if one thing had been different."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from labs.criteria import is_number
from labs.labels import unit_of
from labs.models import Explanation, Run
from labs.run_traces import pinned
from labs.services import submit_run
from labs.validation import check_params
from quiz.errors import Conflict, InvalidInput
from quiz.models import Learner
from quiz.services import lock_learner
from quiz.storable import unstorable

TEXT_LIMIT = 10_000


def require_graded(run: Run) -> None:
    if run.state != Run.State.GRADED:
        raise Conflict("Only a graded run can be looked back on.")


@transaction.atomic
def explain_run(*, run: Run, text: str) -> Explanation:
    """Store why it came out so. Once: the staff points are shown from here on."""
    lock_learner(learner=run.learner)
    require_graded(run)
    if run.task_attempt is None:
        raise Conflict("Only the run of a task is explained.")
    if not text.strip():
        raise InvalidInput([("/text", "say why the run came out as it did")])
    if unstorable(text):
        raise InvalidInput([("/text", "has characters that cannot be stored (NUL or a lone surrogate)")])
    if len(text) > TEXT_LIMIT:
        raise InvalidInput([("/text", f"has {len(text)} characters; at most {TEXT_LIMIT}")])
    points = run.task_attempt.task.staff_points
    explanation, created = Explanation.objects.get_or_create(
        run=run, defaults={"text": text, "points": points}
    )
    if not created and explanation.text != text:
        raise Conflict("The explanation stands already; the staff answer's points were shown with it.")
    return explanation


@transaction.atomic
def check_explanation(*, explanation: Explanation, made: Any) -> Explanation:
    """The learner's ticks, one for each staff point. They may be changed until staff has answered."""
    locked = Explanation.objects.select_for_update().get(pk=explanation.pk)
    if locked.staff_check is not None:
        raise Conflict("Staff has checked this explanation.")
    locked.self_check = checked_ticks(made, len(locked.points), "/made")
    locked.checked_at = timezone.now()
    locked.save(update_fields=["self_check", "checked_at"])
    return locked


def checked_ticks(made: Any, count: int, at: str) -> list[bool]:
    if not isinstance(made, list) or not all(isinstance(tick, bool) for tick in made):
        raise InvalidInput([(at, "must be a list of true and false")])
    if len(made) != count:
        raise InvalidInput([(at, f"must have {count} values, one for each point")])
    return made


def vary_run(*, learner: Learner, run: Run, changes: Any) -> Run:
    """Repeat a graded run with one cause altered and the same seed. It counts nowhere."""
    require_graded(run)
    if not isinstance(changes, dict) or len(changes) != 1:
        raise InvalidInput([("/params", "must name exactly one parameter: one cause, one difference")])
    (name, value), *_ = changes.items()
    if name not in run.lab.job.params.model_fields:
        raise InvalidInput([(f"/params/{name}", "is not a parameter here")])
    params = check_params(run.lab.job, {**run.params, name: value})
    if run.lab.default_trace is not None:
        params = pinned(run.lab, params)  # the default may be the run's own trace
    if params[name] == run.params.get(name):
        raise InvalidInput([(f"/params/{name}", "is the same as in the run itself")])
    return submit_run(learner=learner, lab=run.lab, params=params, seed=run.seed, varied_from=run)


def difference(run: Run) -> dict[str, Any]:
    """A varied run beside the one it was varied from: what was altered, and every single-number metric."""
    origin = run.varied_from
    if origin is None:
        raise Conflict("This run was not varied from another.")
    require_graded(run)
    if run.report is None or origin.report is None:
        raise Conflict("The report of one of the two runs is kept no longer.")
    altered = [
        {"name": name, "before": origin.params.get(name), "after": value}
        for name, value in run.params.items()
        if value != origin.params.get(name)
    ]
    before, after = origin.report["metrics"], run.report["metrics"]
    fields = run.lab.job.metrics.model_json_schema()["properties"]
    rows = [
        {
            "name": name,
            "unit": unit_of(fields[name], run.params),
            "before": before[name],
            "after": after[name],
            "change": after[name] - before[name],
        }
        for name in fields
        if is_number(before.get(name)) and is_number(after.get(name))
    ]
    return {"altered": altered, "metrics": rows}
