"""Authors edit labs and tasks; runs and attempts are there to read."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from labs.json_field import StorableJSONField
from labs.leaderboard_admin import LeaderboardEntryAdmin
from labs.models import Explanation, Figure, Lab, LabTask, Run, TaskAttempt
from labs.reflection import checked_ticks
from labs.trace_admin import TraceAdmin
from quiz.admin.base import CarefulLists
from quiz.admin.readonly import ReadOnly
from quiz.errors import InvalidInput

__all__ = ["LeaderboardEntryAdmin", "TraceAdmin"]


@admin.register(Lab)
class LabAdmin(CarefulLists):
    list_display = ["title", "slug", "engine_version"]
    search_fields = ["title", "slug"]

    @admin.display(description="engine version")
    def engine_version(self, lab: Lab) -> str:
        from simworkers.catalog import engine_version, job_names

        return engine_version(lab.slug) if lab.slug in job_names() else "no such job"


class LabTaskForm(ModelForm):
    class Meta:
        model = LabTask
        field_classes = {"rubric": StorableJSONField, "staff_points": StorableJSONField}
        fields = [
            "activity",
            "lab",
            "kind",
            "prompt",
            "rubric",
            "staff_points",
            "attempts_allowed",
            "published",
            "leaderboard",
            "leaderboard_metric",
            "leaderboard_better",
        ]


@admin.register(LabTask)
class LabTaskAdmin(CarefulLists):
    form = LabTaskForm
    list_display = ["activity", "lab", "kind", "attempts_allowed", "published", "rubric_is_good"]
    list_filter = ["lab", "published", "leaderboard"]
    list_select_related = ["activity", "lab"]
    search_fields = ["activity__title", "activity__slug"]
    autocomplete_fields = ["activity"]

    @admin.display(description="rubric", boolean=True)
    def rubric_is_good(self, task: LabTask) -> bool:
        """A cross where runs cannot be judged: saving the task says why."""
        return task.readable_rubric() is not None


@admin.register(TaskAttempt)
class TaskAttemptAdmin(ReadOnly, CarefulLists):
    list_display = ["public_id", "task", "learner", "offering", "number", "practice", "state", "created_at"]
    list_filter = ["state", "practice", "task__lab", "offering"]
    list_select_related = ["task__activity", "learner", "offering"]
    search_fields = ["public_id", "learner__username"]
    date_hierarchy = "created_at"


class FigureInline(ReadOnly, admin.TabularInline):
    model = Figure
    fields = ["name", "title"]
    extra = 0


@admin.register(Run)
class RunAdmin(ReadOnly, CarefulLists):
    list_display = ["public_id", "lab", "learner", "state", "score", "tries", "created_at", "finished_at"]
    list_filter = ["state", "lab", "reused"]
    list_select_related = ["lab", "learner"]
    search_fields = ["public_id", "learner__username"]
    date_hierarchy = "created_at"
    inlines = [FigureInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        rows = super().get_queryset(request)
        # A page of runs does not need a page of reports.
        listing = (
            request.resolver_match is not None and request.resolver_match.url_name == "labs_run_changelist"
        )
        return rows.defer("report", "sheet", "provenance") if listing else rows


class ExplanationForm(ModelForm):
    """Staff's ticks are checked like the learner's."""

    class Meta:
        model = Explanation
        field_classes = {"staff_check": StorableJSONField}
        fields = ["staff_check", "staff_comment"]

    def clean_staff_check(self) -> list[bool] | None:
        made = self.cleaned_data["staff_check"]
        if made is None:
            return None
        try:
            return checked_ticks(made, len(self.instance.points), "/staff_check")
        except InvalidInput as exc:
            raise ValidationError([text for _, text in exc.errors]) from exc

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if values.get("staff_check") is not None and not values.get("staff_comment", "").strip():
            self.add_error("staff_comment", "Say why your ticks override the learner's.")
        return values


@admin.register(Explanation)
class ExplanationAdmin(CarefulLists):
    """Staff read, comment, and override with a reason; the learner's own words stay as they are."""

    form = ExplanationForm
    list_display = ["run", "learner", "points_made", "written_at", "checked_at", "staff"]
    list_filter = ["run__lab"]
    list_select_related = ["run__lab", "run__learner", "staff"]
    search_fields = ["run__public_id", "run__learner__username", "text"]
    readonly_fields = ["run", "text", "points", "self_check", "written_at", "checked_at"]
    fields = [*readonly_fields, "staff_check", "staff_comment"]

    @admin.display(ordering="run__learner__username")
    def learner(self, explanation: Explanation) -> str:
        return explanation.run.learner.get_username()

    def save_model(self, request: HttpRequest, obj: Explanation, form: Any, change: bool) -> None:
        obj.staff_id = request.user.pk
        super().save_model(request, obj, form, change)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
