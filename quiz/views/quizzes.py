"""A quiz: start, answer, submit, read the result. Works as plain forms; quiz.js saves as the learner goes."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from quiz import services
from quiz.api.disclosure import attempt_document, attempts_of
from quiz.asking import learner_of
from quiz.errors import Refusal
from quiz.models import Activity, Attempt, Enrollment, Quiz
from quiz.views.course import activity_url, visible_offerings

# What the page offers; over REST any whole percentage may be given.
CONFIDENCES = ((25, "Guessing"), (50, "Unsure"), (75, "Fairly sure"), (95, "Certain"))


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def quiz(request: HttpRequest, offering: str, slug: str) -> HttpResponse:
    """What the quiz is, my attempts at it, and the button that starts the next."""
    learner = learner_of(request)
    row = get_object_or_404(visible_offerings(learner), slug=offering)
    found = get_object_or_404(Quiz, activity__slug=slug, activity__course=row.course)
    if request.method == "POST":
        try:
            attempt, _ = services.start_attempt(learner=learner, quiz=found, offering=row)
        except Refusal as exc:
            messages.error(request, exc.detail)
            return redirect("quiz-page", row.slug, slug)
        return redirect("attempt-page", attempt.public_id)
    attempts = list(Attempt.objects.filter(learner=learner, quiz=found, offering=row).order_by("-number"))
    context = {
        "here": "home",
        "offering": row,
        "enrolled": Enrollment.objects.filter(learner=learner, offering=row).exists(),
        "quiz": found,
        "total": len(services.served_versions(found)),
        "attempts": attempts,
        "unfinished": next((one for one in attempts if one.state == Attempt.State.OPEN), None),
        "left": max(0, found.attempts_allowed - len(attempts)),
    }
    return render(request, "quiz/quiz.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def attempt(request: HttpRequest, public_id: str) -> HttpResponse:
    """The questions, and once submitted the result."""
    learner = learner_of(request)
    row = get_object_or_404(attempts_of(learner), public_id=public_id)
    problems: list[dict[str, str]] = []
    unanswered: list[int] = []
    if request.method == "POST" and row.state == Attempt.State.OPEN:
        problems = save_form(row, request.POST)
        row = attempts_of(learner).get(pk=row.pk)
        action = request.POST.get("action", "save")
        if not problems and action in ("submit", "submit-anyway"):
            unanswered = [response.position for response in row.responses.all() if not response.choice]
            if not unanswered or action == "submit-anyway":
                services.submit_attempt(attempt=row)
                return redirect("attempt-page", row.public_id)
        elif not problems:
            messages.success(request, "Your answers are saved.")
            return redirect("attempt-page", row.public_id)
    document = attempt_document(row)
    for question in document["questions"]:
        dress(question, row.offering.slug)
    context = {
        "here": "home",
        "attempt": document,
        "row": row,
        "problems": problems,
        "unanswered": unanswered,
    }
    template = "quiz/attempt.html" if row.state == Attempt.State.OPEN else "quiz/result.html"
    return render(request, template, context, status=409 if problems else 200)


def save_form(attempt: Attempt, data: QueryDict) -> list[dict[str, str]]:
    """Store every answer of the form that differs from what is stored. Refusals, with the question's anchor."""
    problems = []
    for response in attempt.responses.all():
        position = response.position
        choice = data.get(f"choice-{position}", response.choice)
        confidence = whole(data.get(f"confidence-{position}"), response.confidence)
        if (choice, confidence) == (response.choice, response.confidence):
            continue
        seen = whole(data.get(f"sequence-{position}"), 0) or 0
        try:
            services.save_response(
                attempt=attempt,
                position=position,
                choice=choice,
                confidence=confidence,
                sequence=seen + 1,
            )
        except Refusal as exc:
            text = exc.detail
            if any(pointer == "/sequence" for pointer, _ in exc.errors):
                text = (
                    "was answered in another window after this page was loaded. The later answer stands; "
                    "please look at it again."
                )
            problems.append({"anchor": f"question-{position}", "name": f"Question {position}", "text": text})
    return problems


def whole(text: str | None, otherwise: int | None) -> int | None:
    """Digits as a number; anything else is as good as not sent."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else otherwise


def dress(question: dict[str, Any], offering_slug: str) -> None:
    """Add what the page alone needs: choices of confidence, and the URL of the task that shows the answer."""
    given = question["response"]["confidence"]
    question["confidences"] = [
        *CONFIDENCES,
        *([(given, "As given")] if given not in (None, *(value for value, _ in CONFIDENCES)) else []),
    ]
    result = question["result"]
    if result and result["activity"]:
        activity = Activity.objects.get(slug=result["activity"]["slug"])
        result["activity_url"] = activity_url(offering_slug, activity)
