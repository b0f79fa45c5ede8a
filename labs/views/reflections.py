"""Looking back on a graded run by plain forms: explain it, tick the staff points, change one thing."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from labs import page_forms, reflection
from labs.api.schemas import lab_schema
from labs.models import Explanation, Run
from labs.views.forms import error_texts, page_of_run, parameter_choices, run_page_pattern, summary
from labs.views.runs import run_context
from labs.views.trace_choices import with_trace_choices
from quiz.asking import learner_of
from quiz.errors import Conflict, InvalidInput, Refusal
from quiz.views.once import redirect_once


def own_run(request: HttpRequest, public_id: str) -> Run:
    return get_object_or_404(Run.objects.shown_to(learner_of(request)), public_id=public_id)


def back_to(run: Run, anchor: str) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"{reverse('run-page', args=[run.public_id])}#{anchor}")


@require_POST
@login_required
def explain(request: HttpRequest, public_id: str) -> HttpResponse:
    run = own_run(request, public_id)
    # A form sends every line's end as CR LF; the limit counts what was typed.
    text = page_forms.without_carriage_returns(request.POST.get("text", ""))
    try:
        reflection.explain_run(run=run, text=text)
    except InvalidInput as exc:
        context = {**run_context(run), "explain_text": text, "explain_error": exc.errors[0][1]}
        return render(request, "labs/run.html", context, status=exc.status)
    except Refusal as exc:
        messages.error(request, exc.detail)
    return back_to(run, "explanation")


@require_POST
@login_required
def self_check(request: HttpRequest, public_id: str) -> HttpResponse:
    """`made` names the ticked points by their index."""
    explanation = get_object_or_404(Explanation, run=own_run(request, public_id))
    ticked = set(request.POST.getlist("made"))
    made = [str(index) in ticked for index in range(len(explanation.points))]
    try:
        reflection.check_explanation(explanation=explanation, made=made)
    except Refusal as exc:
        messages.error(request, exc.detail)
    return back_to(explanation.run, "explanation")


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def what_if(request: HttpRequest, public_id: str) -> HttpResponse:
    """Two steps: which parameter (?parameter=…), and its other value. The second one starts the variation."""
    run = own_run(request, public_id)
    try:
        reflection.require_graded(run)
    except Conflict as exc:
        messages.error(request, exc.detail)
        return redirect("run-page", run.public_id)
    name = request.GET.get("parameter", "")
    schema = one_parameter(lab_schema(run.lab.job, "parameters"), name)
    values: dict[str, Any] = other_value(schema, run.params)
    refusal: Refusal | None = None
    if request.method == "POST":
        values = page_forms.parse(schema, at="/params", data=request.POST)
        texts, faults = page_forms.read_files(schema, at="/params", files=request.FILES)
        try:
            if faults:
                raise InvalidInput(faults)
            changes = {**values, **texts}
            return redirect_once(
                request,
                lambda: page_of_run(
                    reflection.vary_run(learner=learner_of(request), run=run, changes=changes)
                ),
            )
        except Refusal as exc:
            refusal = exc
    shown = with_trace_choices(schema, learner=learner_of(request), lab=run.lab, values=values)
    groups = page_forms.build(
        shown, at="/params", values=values, errors=error_texts(refusal) if refusal else {}
    )
    context = {
        **step_context(run, name),
        "field": next(iter(page_forms.fields_of(groups)), None),
        "problems": summary(refusal, groups) if refusal else [],
    }
    return render(request, "labs/what_if.html", context, status=refusal.status if refusal else 200)


def step_context(run: Run, name: str) -> dict[str, Any]:
    return {
        "run": run,
        "attempt": run.task_attempt,
        "here": "home" if run.task_attempt else "labs",
        "parameter": name,
        "parameter_choices": parameter_choices(run.lab, name),
        "run_page": run_page_pattern(),
    }


def one_parameter(schema: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema cut down to one property; none where there is no such parameter."""
    properties = {name: schema["properties"][name]} if name in schema["properties"] else {}
    return {**schema, "properties": properties, "required": []}


def other_value(schema: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """What the field starts from: a switch the other way, since there is only one; else what the run had."""
    return {
        name: not params.get(name) if part.get("type") == "boolean" else params.get(name)
        for name, part in schema["properties"].items()
    }
