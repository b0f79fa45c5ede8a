"""A task's leaderboard on its pages: the first places, one's own standing, entering and withdrawing by plain forms."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from labs import leaderboard
from labs.display_names import SHORTEST
from labs.leaderboard import Scale, Standing
from labs.models import LabTask
from labs.models.leaderboard import NAME_LENGTH
from labs.views.forms import Problem, refuse_too_many, text_of
from quiz.asking import learner_of
from quiz.errors import Refusal
from quiz.models import Enrollment, Learner, Offering
from quiz.views.course import visible_offerings

ON_TASK_PAGE = 10
ON_ITS_OWN_PAGE = 50


@dataclass(frozen=True)
class Row:
    """A ranked entry. `score` and `person` are empty for whoever may not see them."""

    rank: int
    name: str
    is_own: bool
    score: str
    person: str


@dataclass(frozen=True)
class Board:
    """What the pages show. `standing`: None for who has not entered; `may_enter`: has a graded run to be ranked by."""

    scale: Scale
    rows: list[Row]
    page: Page[Any]
    sees_all: bool
    standing: Standing | None
    may_enter: bool

    @property
    def own_score(self) -> str:
        return score_text(self.standing.score) if self.standing else ""

    @property
    def reasons(self) -> list[str]:
        """Why final runs of one's own are not ranked."""
        return [final.reason for final in self.standing.finals if final.reason] if self.standing else []


def board_of(
    learner: Learner, task: LabTask, offering: Offering, *, number: str = "1", size: int
) -> Board | None:
    """None where the task has none, or the class is not the learner's."""
    sees_all = leaderboard.sees_all(learner, offering)
    enrolled = Enrollment.objects.filter(learner=learner, offering=offering).exists()
    if not task.leaderboard or not (enrolled or sees_all):
        return None
    page = Paginator(leaderboard.ranking(task, offering).select_related("learner"), size).get_page(number)
    entry = leaderboard.entries_of(learner=learner, task=task).filter(offering=offering).first()
    mine = leaderboard.graded_runs(task).filter(learner=learner, task_attempt__offering=offering)
    return Board(
        scale=leaderboard.scale_of(task),
        rows=[row_of(row, learner, sees_all) for row in page],
        page=page,
        sees_all=sees_all,
        standing=leaderboard.standing_of(entry) if entry else None,
        may_enter=enrolled and (entry is not None or (offering.is_open and mine.exists())),
    )


def row_of(row: Any, learner: Learner, sees_all: bool) -> Row:
    return Row(
        rank=row.rank,
        name=row.display_name,
        is_own=row.learner_id == learner.pk,
        score=score_text(row.score) if sees_all else "",
        person=row.learner.username if sees_all else "",
    )


def score_text(score: float | None) -> str:
    """Six significant digits, so that scores of two ranks seldom look the same."""
    return "" if score is None else f"{score:,.6g}"


def board_context(learner: Learner, task: LabTask, offering: Offering) -> dict[str, Any]:
    """For the task's own page: the first places."""
    return {
        "board": board_of(learner, task, offering, size=ON_TASK_PAGE),
        "shortest_name": SHORTEST,
        "longest_name": NAME_LENGTH,
    }


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def board(request: HttpRequest, offering: str, slug: str) -> HttpResponse:
    """All ranks; and where the form of either page leads."""
    learner, task, row = asked_for(request, offering, slug)
    refusal: Refusal | None = None
    if request.method == "POST":
        try:
            enter(request, task, row)
        except Refusal as exc:
            refusal = exc
        else:
            return back_to_task(task, row)
    found = board_of(learner, task, row, number=request.GET.get("page", "1"), size=ON_ITS_OWN_PAGE)
    if found is None:
        return redirect("task-page", row.slug, task.slug)
    error = text_of(refusal) if refusal else ""
    context = {
        "here": "home",
        "offering": row,
        "task": task,
        "board": found,
        "whole": True,
        "shortest_name": SHORTEST,
        "longest_name": NAME_LENGTH,
        "problems": [Problem("display-name", "Display name", error)] if refusal else [],
        "error": error,
        "typed": request.POST.get("display_name", ""),
    }
    return render(request, "labs/leaderboard.html", context, status=refusal.status if refusal else 200)


def asked_for(request: HttpRequest, offering: str, slug: str) -> tuple[Learner, LabTask, Offering]:
    """404 where the class is not to be seen, or the task is unpublished or has no leaderboard."""
    learner = learner_of(request)
    row = get_object_or_404(visible_offerings(learner), slug=offering)
    tasks = LabTask.objects.select_related("activity", "lab__default_trace__file")
    task = get_object_or_404(
        tasks, activity__slug=slug, activity__course=row.course, published=True, leaderboard=True
    )
    return learner, task, row


def enter(request: HttpRequest, task: LabTask, offering: Offering) -> None:
    refuse_too_many(request)
    entry, is_new = leaderboard.enter(
        learner=learner_of(request),
        task=task,
        offering=offering,
        display_name=request.POST.get("display_name", ""),
    )
    said = "You have entered the leaderboard as" if is_new else "On the leaderboard you are now"
    messages.success(request, f"{said} {entry.display_name}.")


@require_POST
@login_required
def withdraw(request: HttpRequest, offering: str, slug: str) -> HttpResponse:
    learner, task, row = asked_for(request, offering, slug)
    entry = leaderboard.entries_of(learner=learner, task=task).filter(offering=row).first()
    if entry is not None:
        leaderboard.withdraw(entry=entry)
        messages.success(request, "You have withdrawn from the leaderboard.")
    return back_to_task(task, row)


def back_to_task(task: LabTask, offering: Offering) -> HttpResponse:
    return redirect(f"{reverse('task-page', args=[offering.slug, task.slug])}#leaderboard")
