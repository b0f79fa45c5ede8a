"""A run: its progress while it computes, and its result."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from labs import scheduling, services
from labs.exploration import explore_path
from labs.models import Explanation, Run
from labs.presentation import queue_text
from labs.views.differences import variations_of
from labs.views.forms import parameter_choices, run_page_pattern
from labs.views.results import result
from quiz.asking import learner_of
from quiz.errors import Refusal


@require_safe
@login_required
def run(request: HttpRequest, public_id: str) -> HttpResponse:
    row = get_object_or_404(Run.objects.shown_to(learner_of(request)), public_id=public_id)
    return render(request, "labs/run.html", run_context(row))


def run_context(run: Run) -> dict[str, Any]:
    return {
        "run": run,
        "attempt": run.task_attempt,
        "here": "home" if run.task_attempt else "labs",
        "active": not run.is_terminal,
        "explore": explore_path(run.task_attempt) if run.task_attempt else None,
        "queue": place_in_queue(run),
        **(result(run) if run.report else {}),
        **(looking_back(run) if run.state == Run.State.GRADED else {}),
    }


def place_in_queue(run: Run) -> str:
    if run.state != Run.State.QUEUED:
        return ""
    return queue_text(
        scheduling.queue_position(run), scheduling.expected_wait_s(run), scheduling.waits_in_vain(run)
    )


def looking_back(run: Run) -> dict[str, Any]:
    """The explanation of a task's run with the staff points, once it stands; the variations of any run."""
    explanation = Explanation.objects.filter(run=run).first()
    return {
        "looks_back": True,
        "explanation": explanation,
        "points": staff_points(explanation) if explanation else [],
        "variations": variations_of(run),
        "parameter_choices": parameter_choices(run.lab),
        "run_page": run_page_pattern(),
    }


def staff_points(explanation: Explanation) -> list[tuple[str, bool, bool | None]]:
    """(sentence, the learner's tick, staff's tick where staff has checked)."""
    mine = explanation.self_check or [False] * len(explanation.points)
    staff = explanation.staff_check or [None] * len(explanation.points)
    return list(zip(explanation.points, mine, staff, strict=True))


@require_POST
@login_required
def cancel(request: HttpRequest, public_id: str) -> HttpResponse:
    row = get_object_or_404(Run.objects.shown_to(learner_of(request)), public_id=public_id)
    try:
        services.cancel_run(run=row)
    except Refusal as exc:
        messages.error(request, exc.detail)
    return redirect("run-page", row.public_id)
