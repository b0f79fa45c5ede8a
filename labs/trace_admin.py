"""Authors offer recorded traces to everyone; those that learners hold are there to read, and to be offered."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import HttpRequest

from labs.models import Trace, TraceFile
from labs.trace_storage import CHUNK_BYTES
from labs.traces import give_up, hand_in, offer_trace
from quiz.admin.base import CarefulLists


class OfferForm(forms.ModelForm):
    """A new trace, for everyone."""

    upload = forms.FileField(label="File", help_text="One JSON object a line, plain or gzip.")

    class Meta:
        model = Trace
        fields = ["name"]

    def clean_upload(self) -> UploadedFile:
        file: UploadedFile = self.cleaned_data["upload"]
        if (file.size or 0) > settings.TRACE_LIMIT_BYTES:
            raise ValidationError(f"has {file.size:,} bytes; at most {settings.TRACE_LIMIT_BYTES:,}")
        return file


@admin.register(Trace)
class TraceAdmin(CarefulLists):
    list_display = ["name", "holder", "state", "size", "short_digest", "created_at"]
    list_filter = ["file__state", ("learner", admin.EmptyFieldListFilter)]
    list_select_related = ["file", "learner"]
    search_fields = ["name", "file__digest", "learner__username"]
    readonly_fields = ["holder", "state", "reason", "size", "digest", "summary", "created_at"]
    actions = ["offer"]

    @admin.display(ordering="learner__username", description="held by")
    def holder(self, trace: Trace) -> str:
        return "offered to everyone" if trace.learner is None else trace.learner.get_username()

    @admin.display(ordering="file__state")
    def state(self, trace: Trace) -> str:
        return TraceFile.State(trace.file.state).label

    @admin.display(description="why")
    def reason(self, trace: Trace) -> str:
        return trace.file.reason

    @admin.display(ordering="file__bytes_sent", description="bytes as sent")
    def size(self, trace: Trace) -> str:
        return f"{trace.file.bytes_sent:,}"

    @admin.display(description="SHA-256")
    def digest(self, trace: Trace) -> str:
        return trace.file.digest

    @admin.display(description="SHA-256")
    def short_digest(self, trace: Trace) -> str:
        return f"{trace.file.digest[:12]}…"

    @admin.display
    def summary(self, trace: Trace) -> Any:
        return trace.file.summary

    def get_fields(self, request: HttpRequest, obj: Trace | None = None) -> Any:
        return ["name", "upload"] if obj is None else ["name", *self.readonly_fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Trace | None = None) -> list[str]:
        return [] if obj is None else list(self.readonly_fields)

    def get_form(
        self, request: HttpRequest, obj: Trace | None = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(request, obj, change, **kwargs, **({} if change else {"form": OfferForm}))

    def save_model(self, request: HttpRequest, obj: Trace, form: Any, change: bool) -> None:
        if change:
            return super().save_model(request, obj, form, change)
        file: UploadedFile = form.cleaned_data["upload"]
        made, is_new = hand_in(learner=None, name=obj.name, parts=iter(file.chunks(CHUNK_BYTES)))
        if not is_new:
            messages.warning(request, f"This file is offered already, as {made.name}.")
        obj.pk, obj.file, obj.name, obj.public_id = made.pk, made.file, made.name, made.public_id
        return None

    @admin.action(description="Offer to everyone", permissions=["add"])
    def offer(self, request: HttpRequest, traces: QuerySet[Trace]) -> None:
        for trace in traces.select_related("file"):
            if trace.file.state == TraceFile.State.READY:
                self.log_addition(
                    request, offer_trace(file=trace.file, name=trace.name), "Offered to everyone."
                )
            else:
                messages.warning(request, f"{trace.name} is not ready and was not offered.")

    def delete_model(self, request: HttpRequest, obj: Trace) -> None:
        give_up(trace=obj)

    def get_actions(self, request: HttpRequest) -> Any:
        """One by one: a trace that is deleted takes its file along, and a learner's is the learner's."""
        return {name: action for name, action in super().get_actions(request).items() if name == "offer"}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.is_offered)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or obj.is_offered)
