"""What the forms of a task and of free exploration share: refusals beside their fields."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse

from labs import page_forms
from labs.api.schemas import lab_schema
from labs.models import Lab, Run
from labs.page_forms import Choice, Field, Group
from quiz.api.throttling import SubmissionThrottle
from quiz.errors import Refusal, TooMany

NO_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Problem:
    """A line of the error summary; `anchor` is the id of the field, or empty."""

    anchor: str
    name: str
    text: str


class _Submission:
    """What SubmissionThrottle looks for in a view."""

    submits = True


def refuse_too_many(request: HttpRequest) -> None:
    """TooMany above the budget of submissions, which pages and API draw on together."""
    if not SubmissionThrottle().allow_request(request, _Submission):  # type: ignore[arg-type]  # reads `submits` alone
        raise TooMany("Too many submissions for now; wait a minute and send it again.")


def text_of(refusal: Refusal) -> str:
    """All that is wrong, for a form of one field."""
    return "; ".join(text for _, text in refusal.errors) or refusal.detail


def error_texts(exc: Refusal) -> dict[str, str]:
    """pointer → sentence; two sentences about one place become one."""
    found: dict[str, str] = {}
    for pointer, text in exc.errors:
        found[pointer] = f"{found[pointer]}; {text}" if pointer in found else text
    return found


def summary(exc: Refusal, groups: Iterable[Group]) -> list[Problem]:
    fields = page_forms.fields_of(groups)
    if not exc.errors:
        return [Problem("", "", exc.detail)]
    return [line_of(pointer, text, fields) for pointer, text in error_texts(exc).items()]


def line_of(pointer: str, text: str, fields: Iterable[Field]) -> Problem:
    """A fault inside a field's value, such as [0][3] of a table, leads to that field."""
    for field in fields:
        if said := page_forms.error_at(field.pointer, {pointer: text}):
            return Problem(field.id, field.label, said)
    return Problem("", pointer.lstrip("/"), text)


def page_of_run(run: Run) -> str:
    return reverse("run-page", args=[run.public_id])


def run_page_pattern() -> str:
    """The URL of a run's page with NO_ID in the place of its id, for the module that submits over REST."""
    return reverse("run-page", args=[NO_ID])


def parameter_choices(lab: Lab, chosen: str = "") -> list[tuple[str, list[Choice]]]:
    """(group, parameters) of the lab, for a select."""
    groups = page_forms.build(lab_schema(lab.job, "parameters"), at="/params", values={})
    return [(group.title, [choice_of(field, chosen) for field in group.fields]) for group in groups]


def choice_of(field: Field, chosen: str) -> Choice:
    return Choice(field.name, field.label, field.name == chosen)
