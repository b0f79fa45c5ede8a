"""A graded task and one attempt at it: what was drawn, the form, the prediction."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from labs import page_forms, services
from labs.api.schemas import artefact_schema, lab_schema, open_parameter_schema, prediction_schema
from labs.exploration import explore_path
from labs.models import LabTask, Run, TaskAttempt
from labs.page_forms import Group
from labs.presentation import Scenario, scenario
from labs.rubric import AnyCriterion
from labs.views.forms import error_texts, page_of_run, run_page_pattern, summary
from labs.views.leaderboard import board_context
from labs.views.placements import PLACEMENT, placement_scene, start_of
from labs.views.trace_choices import trace_text, with_trace_choices
from quiz.asking import learner_of
from quiz.errors import InvalidInput, Refusal
from quiz.models import Enrollment, Learner, Offering
from quiz.views.course import visible_offerings
from quiz.views.once import redirect_once
from simworkers.inputs import trace_fields

# Kinds of criteria under which a prediction that comes true earns more.
JUDGES_PREDICTION = ("predicted_exactly", "predicted_within")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def task(request: HttpRequest, offering: str, slug: str) -> HttpResponse:
    """What to do, how it is judged, my attempts, and the door to the next."""
    learner = learner_of(request)
    row = get_object_or_404(visible_offerings(learner), slug=offering)
    found = get_object_or_404(
        LabTask.objects.select_related("activity", "lab__default_trace__file"),
        activity__slug=slug,
        activity__course=row.course,
        published=True,
    )
    if request.method == "POST":
        return open_next(request, learner, found, row)
    attempts = list(
        TaskAttempt.objects.filter(learner=learner, task=found, offering=row)
        .prefetch_related("runs")
        .order_by("-pk")
    )
    waiting = (TaskAttempt.State.OPEN, TaskAttempt.State.PREPARING)
    unfinished = next((one for one in attempts if one.state in waiting and not one.practice), None)
    is_ended = unfinished is not None and bool(services.why_ended(unfinished))  # opening replaces it
    context = {
        "here": "home",
        "offering": row,
        "enrolled": Enrollment.objects.filter(learner=learner, offering=row).exists(),
        "task": found,
        "criteria": criteria(found),
        "left": services.attempts_left(learner=learner, task=found, offering=row) + is_ended,
        "attempts": [(one, last_run(one)) for one in attempts],
        **board_context(learner, found, row),
        "unfinished": None if is_ended else unfinished,
    }
    return render(request, "labs/task.html", context)


def criteria(task: LabTask) -> list[tuple[AnyCriterion, list[str]]]:
    """Each criterion of the rubric, with the titles of those it counts only with."""
    parsed = task.criteria()
    titles = {criterion.name: criterion.title for criterion in parsed}
    return [(criterion, [titles[name] for name in criterion.requires]) for criterion in parsed]


def last_run(attempt: TaskAttempt) -> Run | None:
    return max(attempt.runs.all(), key=lambda run: run.pk, default=None)


def open_next(request: HttpRequest, learner: Learner, task: LabTask, offering: Offering) -> HttpResponse:
    def open_one() -> str:
        attempt, _ = services.open_attempt(
            learner=learner,
            task=task,
            offering=offering,
            practice=request.POST.get("kind") == "practice",
            seed=seed_of(request.POST.get("seed", "")),
        )
        return reverse("task-attempt-page", args=[attempt.public_id])

    try:
        return redirect_once(request, open_one)
    except Refusal as exc:
        messages.error(request, exc.detail)
        return redirect("task-page", offering.slug, task.slug)


def seed_of(text: str) -> int | None:
    """Of a practice attempt, where the form names one. InvalidInput at what is none."""
    if not text:
        return None
    largest = 2**services.SEED_BITS - 1
    is_short = text.isascii() and text.isdigit() and len(text) <= len(str(largest))
    if not is_short or int(text) > largest:
        raise InvalidInput([("/seed", f"must be a whole number from 0 to {largest}")])
    return int(text)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def attempt(request: HttpRequest, public_id: str) -> HttpResponse:
    """One attempt: preparing, or its scenario with the form, or what became of it."""
    learner = learner_of(request)
    mine = TaskAttempt.objects.filter(learner=learner).select_related(
        "task__activity", "task__lab", "offering__course"
    )
    row = get_object_or_404(mine, public_id=public_id)
    refusal: Refusal | None = None
    posted: dict[str, Any] = {}
    if request.method == "POST":
        posted, faults = posted_values(request, row)
        try:
            if faults:
                raise InvalidInput(faults)
            return redirect_once(
                request,
                lambda: page_of_run(
                    services.submit_run(learner=learner, lab=row.task.lab, task_attempt=row, **posted)
                ),
            )
        except Refusal as exc:
            refusal = exc
    runs = list(row.runs.order_by("-pk"))
    context = {
        "here": "home",
        "attempt": row,
        "task": row.task,
        "offering": row.offering,
        "runs": runs,
        "active": next((run for run in runs if not run.is_terminal), None),
        "ended": services.why_ended(row),
        "explore": explore_path(row),
        **(form_context(row, posted, refusal) if row.instance is not None else {}),
    }
    return render(request, "labs/attempt.html", context, status=refusal.status if refusal else 200)


def posted_values(request: HttpRequest, attempt: TaskAttempt) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """(parameters, prediction and artefact of a form post, faults of chosen files).

    A locked prediction is sent again as it was.
    """
    job, kind = attempt.task.lab.job, attempt.task.task_kind
    prediction = attempt.prediction or page_forms.parse(
        prediction_schema(kind), at="/prediction", data=request.POST
    )
    schema = open_parameter_schema(job, kind)
    texts, faults = page_forms.read_files(schema, at="/params", files=request.FILES)
    params = page_forms.parse(schema, at="/params", data=request.POST)
    handed_in = artefact_schema(kind)
    artefact = page_forms.parse(handed_in, at="/artefact", data=request.POST) if handed_in else None
    return {"params": {**params, **texts}, "prediction": prediction, "artefact": artefact}, faults


def form_context(attempt: TaskAttempt, posted: dict[str, Any], refusal: Refusal | None) -> dict[str, Any]:
    job, kind = attempt.task.lab.job, attempt.task.task_kind
    errors = error_texts(refusal) if refusal else {}
    assert attempt.instance is not None
    values = {**attempt.instance["params"], **posted.get("params", {})}
    groups = page_forms.build(
        with_trace_choices(
            open_parameter_schema(job, kind), learner=attempt.learner, lab=attempt.task.lab, values=values
        ),
        at="/params",
        values=values,
        errors=errors,
    )
    guesses = posted.get("prediction") or attempt.prediction or {}
    prediction = page_forms.build(prediction_schema(kind), at="/prediction", values=guesses, errors=errors)
    artefact, scene = artefact_context(attempt, posted.get("artefact"), errors)
    asked = [*prediction, *groups, *artefact]
    return {
        "groups": groups,
        "prediction": page_forms.fields_of(prediction),
        "prediction_is_judged": any(
            criterion.kind in JUDGES_PREDICTION for criterion in attempt.task.criteria()
        ),
        "artefact": page_forms.fields_of(artefact),
        "placement_scene": scene,
        "takes_files": any(field.takes_file for field in page_forms.fields_of(asked)),
        "problems": summary(refusal, asked) if refusal else [],
        "scenario": drawn_scenario(attempt),
        "run_page": run_page_pattern(),
    }


def artefact_context(
    attempt: TaskAttempt, posted: dict[str, Any] | None, errors: dict[str, str]
) -> tuple[list[Group], dict[str, Any] | None]:
    """(fields of the artefact, the scene of a placement): none where the task asks for none."""
    schema = artefact_schema(attempt.task.task_kind)
    if schema is None:
        return [], None
    scene = placement_scene(attempt) if PLACEMENT in schema["properties"] else None
    values = posted if posted is not None else start_of(scene)
    return page_forms.build(schema, at="/artefact", values=values, errors=errors), scene


def drawn_scenario(attempt: TaskAttempt) -> Scenario:
    """With a recorded trace by its name."""
    job, visible = attempt.task.lab.job, dict(attempt.visible or {})
    for name in visible.keys() & set(trace_fields(job.params)):
        visible[name] = trace_text(attempt.learner, visible[name])
    return scenario(visible, lab_schema(job, "parameters"), lab_schema(job, "metrics"))
