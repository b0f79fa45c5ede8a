"""Where a lab's parameter takes a recorded trace: the traces that a learner may choose from, by name."""

from collections.abc import Mapping
from typing import Any

from labs.models import Lab, Run, Trace, TraceFile
from quiz.models import Learner
from simworkers.inputs import WORD_DEFAULT, is_digest


def with_trace_choices(
    schema: Mapping[str, Any], *, learner: Learner, lab: Lab, values: Mapping[str, Any]
) -> dict[str, Any]:
    """The schema, its parameters that take a trace cut down to what this learner can name.

    A trace that a value names and that is gone stays a choice, said to be gone: no other stands in for it unseen.
    """
    properties = dict(schema["properties"])
    for name, part in schema["properties"].items():
        if part.get("format") == "trace":
            choices = choices_of(part, learner, lab)
            value = values.get(name)
            if isinstance(value, str) and value not in choices:
                choices[value] = trace_text(learner, value)
            properties[name] = part | {"enum": list(choices), "enumNames": list(choices.values())}
    return {**schema, "properties": properties}


def choices_of(part: Mapping[str, Any], learner: Learner, lab: Lab) -> dict[str, str]:
    """value → text: the lab's own word, the author's choice, own traces, offered ones."""
    own_word = str(part.get("default", ""))
    choices = {own_word: own_word.capitalize()} if own_word and own_word != WORD_DEFAULT else {}
    if lab.default_trace is not None:
        choices[WORD_DEFAULT] = f"Default: {lab.default_trace.name}"
    usable = Trace.objects.shown_to(learner).filter(file__state=TraceFile.State.READY)
    for trace in usable.order_by("learner", "name", "pk"):
        # Held and offered, it is there once and by the learner's own name; which comes first depends on the database.
        if not trace.is_offered or trace.file.digest not in choices:
            choices[trace.file.digest] = f"{trace.name} (offered)" if trace.is_offered else trace.name
    return choices


def trace_text(learner: Learner, value: str) -> str:
    """A trace by the name that the learner knows it by; any other value as it is."""
    if not is_digest(value):
        return value
    known = Trace.objects.shown_to(learner).filter(file__digest=value).order_by("pk")
    names = {trace.is_offered: trace.name for trace in known}
    return names.get(False) or names.get(True) or f"A trace that is no longer here ({value[:12]}…)"


def named(run: Run, value: Any) -> Any:
    """A parameter's value as the run's page shows it."""
    return trace_text(run.learner, value) if is_digest(value) else value
