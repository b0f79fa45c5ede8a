"""Recorded traces as a page: hand one in, see what is in it, give it up. Works without script."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from labs.models import Lab, Trace, TraceFile
from labs.trace_storage import CHUNK_BYTES
from labs.traces import give_up, hand_in
from labs.views.forms import Problem, refuse_too_many, text_of
from quiz.asking import learner_of
from quiz.errors import InvalidInput, Refusal
from simworkers import catalog
from simworkers.inputs import trace_fields
from simworkers.trace_summary import few_of


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def traces(request: HttpRequest) -> HttpResponse:
    refusal: Refusal | None = None
    if request.method == "POST":
        try:
            trace = take(request)
        except Refusal as exc:
            refusal = exc
        else:
            messages.success(request, f"{trace.name}: {SAID[TraceFile.State(trace.file.state)]}")
            return redirect("traces-page")
    context = page_context(request) | {
        "problems": [Problem("trace-file", "File", text_of(refusal))] if refusal else [],
        "error": text_of(refusal) if refusal else "",
        "name": request.POST.get("name", ""),
    }
    return render(request, "labs/traces.html", context, status=refusal.status if refusal else 200)


SAID = {
    TraceFile.State.CHECKING: "handed in; a worker checks it now.",
    TraceFile.State.READY: "ready; it was checked before.",
    TraceFile.State.REFUSED: "was refused before; a worker checks it once more.",
}


def take(request: HttpRequest) -> Trace:
    refuse_too_many(request)
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        raise InvalidInput([("/file", "choose a file")])
    name = request.POST.get("name", "").strip() or file.name or ""
    return hand_in(learner=learner_of(request), name=name, parts=iter(file.chunks(CHUNK_BYTES)), at="/file")[
        0
    ]


@dataclass(frozen=True)
class Card:
    """A trace on the page. facts: (what, how much); lines: how many were refused and repaired, empty for none."""

    trace: Trace
    facts: list[tuple[str, str]]
    notes: list[dict[str, Any]]
    lines: str
    left_out: int  # notes that were counted and not kept
    is_mixed: bool  # sessions of several block sizes, which no one cache can hold

    @property
    def file(self) -> TraceFile:
        return self.trace.file

    @property
    def size(self) -> str:
        return size_text(self.trace.file.bytes_sent)


FACTS = {
    "sessions": "Sessions",
    "requests": "Requests",
    "subagent_requests": "of them by subagents",
    "input_tokens": "Input tokens",
    "output_tokens": "Output tokens",
    "block_references": "References to blocks",
}


def card_of(trace: Trace) -> Card:
    summary: dict[str, Any] = trace.file.summary or {}
    facts = [(text, f"{summary[name]:,}") for name, text in FACTS.items() if name in summary]
    if not summary.get("has_sessions", True):
        facts[0] = (FACTS["sessions"], "none")
    sizes = summary.get("block_sizes", [])
    if sizes:
        different = len(sizes) + summary.get("block_sizes_left_out", 0)
        facts.append(("Tokens a block", few_of(sizes) + f", {different:,} sizes" * (different > 2)))
    refused, repairs = summary.get("lines_refused", 0), summary.get("repairs", 0)
    notes = summary.get("notes", [])
    lines = f"Lines refused: {refused:,}, repairs: {repairs:,}" if refused or repairs else ""
    return Card(trace, facts, notes, lines, refused + repairs - len(notes), len(sizes) > 1)


def page_context(request: HttpRequest) -> dict[str, Any]:
    shown = Trace.objects.shown_to(learner_of(request)).prefetch_related("default_of").order_by("-pk")
    mine = [card_of(trace) for trace in shown if not trace.is_offered]
    return {
        "here": "labs",
        "mine": mine,
        "offered": [card_of(trace) for trace in shown if trace.is_offered],
        "held": size_text(sum(card.file.bytes_sent for card in mine)),
        "limit_bytes": settings.TRACE_LIMIT_BYTES,
        "limit": size_text(settings.TRACE_LIMIT_BYTES),
        "allowed": size_text(settings.TRACE_BYTES_PER_LEARNER),
        "traces_allowed": settings.TRACES_PER_LEARNER,
        "takers": [
            (lab, trace_fields(lab.job.params)[0]) for lab in Lab.objects.order_by("pk") if takes_traces(lab)
        ],
    }


def size_text(count_bytes: int) -> str:
    """25 MiB, 1.5 MiB, 414 KiB; what is smaller in bytes."""
    if count_bytes < 1024:
        return f"{count_bytes} bytes"
    if count_bytes < 2**20 - 512:  # from there on it rounds to 1024 KiB
        return f"{count_bytes / 1024:.0f} KiB"
    return f"{count_bytes / 2**20:.1f} MiB".replace(".0 ", " ")


def takes_traces(lab: Lab) -> bool:
    return lab.slug in catalog.job_names() and bool(trace_fields(lab.job.params))


@require_POST
@login_required
def delete(request: HttpRequest, public_id: str) -> HttpResponse:
    trace = get_object_or_404(Trace.objects.held_by(learner_of(request)), public_id=public_id)
    give_up(trace=trace)
    messages.success(request, f"{trace.name} was deleted.")
    return redirect("traces-page")
