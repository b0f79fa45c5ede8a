"""The forms behind a question version: errors stand at the field that is wrong."""

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget
from django.core.exceptions import ValidationError
from django.forms.models import BaseInlineFormSet

from quiz.models import Option, Question, QuestionVersion
from quiz.services.questions import option_faults

PARAGRAPH = forms.Textarea(attrs={"rows": 3, "cols": 90})


class LinesField(forms.CharField):
    """A list of sentences, one a line."""

    widget = AdminTextareaWidget

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (super().to_python(value) or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)


class QuestionVersionForm(forms.ModelForm):
    staff_points = LinesField(required=False, help_text="Points of a strong answer, one a line.")

    class Meta:
        model = QuestionVersion
        fields = ["question", "stem", "explanation", "staff_points"]

    def clean_question(self) -> Question:
        question: Question = self.cleaned_data["question"]
        if question.versions.filter(published_at__isnull=True).exclude(pk=self.instance.pk).exists():
            raise ValidationError(f"{question} has a draft already; edit that one.")
        return question


class OptionForm(forms.ModelForm):
    class Meta:
        model = Option
        fields = ["key", "correct", "text", "feedback"]
        widgets = {"text": PARAGRAPH, "feedback": PARAGRAPH}
        error_messages = {"feedback": {"required": "Every option needs feedback."}}

    def clean_key(self) -> str:
        key: str = self.cleaned_data["key"]
        if not ("a" <= key <= "z"):
            raise ValidationError("The key is one small letter: a, b, c …")
        return key

    def validate_constraints(self) -> None:
        """Left to the formset: against the stored rows, two options could never swap places."""


class OptionFormSet(BaseInlineFormSet):
    def written_options(self) -> list[dict[str, Any]]:
        kept = [
            form.cleaned_data for form in self.forms if form not in self.deleted_forms and form.cleaned_data
        ]
        fields = ("key", "correct", "text", "feedback")
        return [{name: values[name] for name in fields} for values in kept if values.get("key")]

    def clean(self) -> None:
        super().clean()
        if any(self.errors):
            return
        options = [(o["text"], o["feedback"], o["correct"]) for o in self.written_options()]
        if faults := [text for _, text in option_faults(options)]:
            raise ValidationError([f"Options: {text}." for text in faults])
