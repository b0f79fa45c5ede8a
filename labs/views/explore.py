"""The labs, and free exploration: any parameters, no grade."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_http_methods, require_safe

from labs import page_forms, services
from labs.api.schemas import lab_schema
from labs.exploration import explore_path, start_values
from labs.models import Lab, LabTask, Run, TaskAttempt
from labs.sweeps import NotComputed, ask_for_sweep
from labs.views.forms import error_texts, page_of_run, run_page_pattern, summary
from labs.views.sweeps import sweep_view
from labs.views.trace_choices import with_trace_choices
from quiz.asking import learner_of
from quiz.errors import InvalidInput, Refusal
from quiz.models import Learner, Offering
from quiz.views.once import redirect_once
from simworkers.inputs import is_digest, trace_fields

RUNS_SHOWN = 20
LARGEST_SEED = 2**63 - 1

SEED_SCHEMA = {
    "properties": {
        "seed": {
            "type": "integer",
            "minimum": 0,
            "description": "Which draw of the traffic. The same seed and parameters give the same run.",
            "default": 0,
        }
    }
}


@require_safe
@login_required
def labs(request: HttpRequest) -> HttpResponse:
    return render(request, "labs/labs.html", {"here": "labs", "labs": Lab.objects.order_by("pk")})


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def lab(request: HttpRequest, slug: str) -> HttpResponse:
    learner = learner_of(request)
    row = get_object_or_404(Lab, slug=slug)
    schema = lab_schema(row.job, "parameters")
    attempt = explored_attempt(learner, row, request.GET.get("attempt"))
    values: dict[str, Any] = (
        start_values(attempt) if attempt else earlier_values(learner, row, request.GET.get("from"))
    )
    values |= named_traces(row, request.GET)
    errors: dict[str, str] = {}
    refusal: Refusal | None = None
    if request.method == "POST":
        texts, faults = page_forms.read_files(schema, at="/params", files=request.FILES)
        values = {**page_forms.parse(schema, at="/params", data=request.POST), **texts}
        seed = page_forms.parse(SEED_SCHEMA, at="", data=request.POST).get("seed", 0)
        try:
            if not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED:
                raise InvalidInput([("/seed", "must be a whole number from 0")])
            if faults:
                raise InvalidInput(faults)
            return redirect_once(
                request,
                lambda: page_of_run(services.submit_run(learner=learner, lab=row, params=values, seed=seed)),
            )
        except Refusal as exc:
            refusal, errors, values = exc, error_texts(exc), {**values, "seed": seed}
    shown = with_trace_choices(schema, learner=learner, lab=row, values=values)
    groups = page_forms.fold(
        page_forms.build(shown, at="/params", values=values, errors=errors),
        essentials=row.job.essentials,
        internals=row.job.internals,
    )
    seed_group = page_forms.build(SEED_SCHEMA, at="", values=values, errors=errors)
    groups = sorted([*groups, *seed_group], key=lambda group: group.folds)  # what folds stands last
    context = {
        "here": "labs",
        "lab": row,
        "filled_from": attempt,
        "groups": groups,
        "problems": summary(refusal, groups) if refusal else [],
        "takes_files": any(field.takes_file for field in page_forms.fields_of(groups)),
        "runs": Run.objects.for_learner(learner).filter(lab=row).order_by("-pk")[:RUNS_SHOWN],
        "tasks": tasks_of(learner, row),
        "run_page": run_page_pattern(),
        **sweep_context(row, request.GET),
    }
    return render(request, "labs/lab.html", context, status=refusal.status if refusal else 200)


def sweep_context(lab: Lab, query: Mapping[str, str]) -> dict[str, Any]:
    """The cut of the lab's sweep that the query names; who looks first has it computed."""
    if lab.job.sweep is None:
        return {"has_sweep": False}
    try:
        sweep = ask_for_sweep(lab=lab)
    except NotComputed:
        return {"has_sweep": True, "sweep_failed": True}
    if not sweep.data:
        return {"has_sweep": True, "sweep": None}
    schemas = (lab_schema(lab.job, name) for name in ("parameters", "metrics"))
    return {"has_sweep": True, "sweep": sweep_view(sweep.data, query, *schemas)}


def earlier_values(learner: Learner, lab: Lab, run_id: str | None) -> dict[str, Any]:
    """Parameters and seed of one of the learner's own free runs, to change one thing and run again."""
    if not run_id:
        return {}
    try:
        rows = Run.objects.for_learner(learner).filter(lab=lab, task_attempt=None, public_id=run_id)
        run = rows.first()
    except ValidationError:
        return {}
    return {**run.params, "seed": run.seed} if run else {}


def named_traces(lab: Lab, query: Mapping[str, str]) -> dict[str, str]:
    """Recorded traces that a link to the form chooses, by the parameters that take one."""
    given = {name: query.get(name, "") for name in trace_fields(lab.job.params)}
    return {name: digest for name, digest in given.items() if is_digest(digest)}


def explored_attempt(learner: Learner, lab: Lab, attempt_id: str | None) -> TaskAttempt | None:
    """The learner's attempt that the form is to start from, if it has an instance that may be explored."""
    if not attempt_id:
        return None
    try:
        rows = TaskAttempt.objects.filter(learner=learner, task__lab=lab, public_id=attempt_id)
        attempt = rows.select_related("task__activity", "task__lab").first()
    except ValidationError:
        return None
    return attempt if attempt and explore_path(attempt) else None


def tasks_of(learner: Learner, lab: Lab) -> list[tuple[Offering, LabTask]]:
    """Graded tasks of the lab in every class that the learner is in."""
    tasks = LabTask.objects.filter(lab=lab, published=True).select_related("activity")
    mine = Offering.objects.filter(enrollments__learner=learner)
    return [
        (offering, task)
        for task in tasks.order_by("activity__position")
        for offering in mine.filter(course=task.activity.course_id)
    ]
