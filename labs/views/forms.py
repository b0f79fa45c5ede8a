"""What the forms of a task and of free exploration share: refusals beside their fields."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse

from labs.page_forms import Group
from quiz.errors import Refusal

NO_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Problem:
    """A line of the error summary; `anchor` is the id of the field, or empty."""

    anchor: str
    name: str
    text: str


def error_texts(exc: Refusal) -> dict[str, str]:
    """pointer → sentence; two sentences about one place become one."""
    found: dict[str, str] = {}
    for pointer, text in exc.errors:
        found[pointer] = f"{found[pointer]}; {text}" if pointer in found else text
    return found


def summary(exc: Refusal, groups: Iterable[Group]) -> list[Problem]:
    fields = {field.pointer: field for group in groups for field in group.fields}
    if not exc.errors:
        return [Problem("", "", exc.detail)]
    return [
        Problem(fields[pointer].id, fields[pointer].label, text)
        if pointer in fields
        else Problem("", pointer.lstrip("/"), text)
        for pointer, text in error_texts(exc).items()
    ]


def run_page_pattern() -> str:
    """The URL of a run's page with NO_ID in the place of its id, for the module that submits over REST."""
    return reverse("run-page", args=[NO_ID])
