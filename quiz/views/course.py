"""Home, a class, and the text to read."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from quiz import services
from quiz.asking import learner_of
from quiz.errors import Refusal
from quiz.models import Activity, Attempt, Enrollment, Learner, Offering, Section
from quiz.services import Progress

# The page of an activity, by kind. By name, so that this app knows nothing of the one that serves it.
PAGES = {Activity.Kind.QUIZ: "quiz-page", Activity.Kind.LAB_TASK: "task-page"}


def activity_url(offering_slug: str, activity: Activity) -> str:
    return reverse(PAGES[Activity.Kind(activity.kind)], args=[offering_slug, activity.slug])


@dataclass(frozen=True)
class ActivityRow:
    activity: Activity
    url: str
    points: Any  # Decimal, or None without a grade
    started: bool


def visible_offerings(learner: Learner) -> QuerySet[Offering]:
    return services.visible_offerings(learner=learner).select_related("course").order_by("pk")


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    context: dict[str, Any] = {"here": "home", "open_registration": settings.STAFFLOOP_OPEN_REGISTRATION}
    if not request.user.is_authenticated:
        return render(request, "quiz/welcome.html", context)
    learner = learner_of(request)
    offerings = visible_offerings(learner)
    mine = offerings.filter(enrollments__learner=learner)
    context["mine"] = [(row, services.progress_of(learner=learner, offering=row)) for row in mine]
    context["joinable"] = offerings.filter(self_enrolment=True).exclude(enrollments__learner=learner)
    return render(request, "quiz/home.html", context)


@require_safe
@login_required
def offering(request: HttpRequest, offering: str) -> HttpResponse:
    learner = learner_of(request)
    row = get_object_or_404(visible_offerings(learner), slug=offering)
    progress = services.progress_of(learner=learner, offering=row)
    context = {
        "here": "home",
        "offering": row,
        "enrolled": Enrollment.objects.filter(learner=learner, offering=row).exists(),
        "progress": progress,
        "sections": row.course.sections.order_by("position"),
        "activities": activity_rows(learner, row, progress),
    }
    return render(request, "quiz/offering.html", context)


def activity_rows(learner: Learner, offering: Offering, progress: Progress) -> list[ActivityRow]:
    begun = set(
        Attempt.objects.filter(learner=learner, offering=offering, state=Attempt.State.OPEN).values_list(
            "quiz__activity_id", flat=True
        )
    )
    return [
        ActivityRow(
            activity=row.activity,
            url=activity_url(offering.slug, row.activity),
            points=None if row.grade is None else row.grade.points,
            started=row.activity.pk in begun,
        )
        for row in progress.rows
    ]


@require_POST
@login_required
def join(request: HttpRequest, offering: str) -> HttpResponse:
    learner = learner_of(request)
    row = get_object_or_404(visible_offerings(learner), slug=offering)
    try:
        services.enroll_oneself(learner=learner, offering=row)
    except Refusal as exc:
        messages.error(request, exc.detail)
    else:
        messages.success(request, f"You have joined {row}.")
    return redirect("offering-page", row.slug)


@require_safe
@login_required
def section(request: HttpRequest, offering: str, section: str) -> HttpResponse:
    row = get_object_or_404(visible_offerings(learner_of(request)), slug=offering)
    current = get_object_or_404(Section, course=row.course, slug=section)
    around = row.course.sections
    context = {
        "here": "home",
        "offering": row,
        "section": current,
        "number": around.filter(position__lte=current.position).count(),
        "total": around.count(),
        "previous": around.filter(position__lt=current.position).order_by("-position").first(),
        "next": around.filter(position__gt=current.position).order_by("position").first(),
        "first_activity": row.course.activities.order_by("position").first(),
    }
    if context["first_activity"] is not None:
        context["first_activity_url"] = activity_url(row.slug, context["first_activity"])  # type: ignore[arg-type]
    return render(request, "quiz/section.html", context)
