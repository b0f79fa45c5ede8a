"""Authors edit labs and tasks; runs and attempts are there to read."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from labs.models import Figure, Lab, LabTask, Run, TaskAttempt


class ReadOnly:
    """What runs and attempts hold is a record: it may be read, never typed."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Lab)
class LabAdmin(admin.ModelAdmin):
    list_display = ["title", "slug", "engine_version"]
    search_fields = ["title", "slug"]

    @admin.display(description="engine version")
    def engine_version(self, lab: Lab) -> str:
        from simworkers.catalog import engine_version, job_names

        return engine_version(lab.slug) if lab.slug in job_names() else "no such job"


class LabTaskForm(ModelForm):
    class Meta:
        model = LabTask
        fields = [
            "activity",
            "lab",
            "kind",
            "prompt",
            "rubric",
            "staff_points",
            "attempts_allowed",
            "published",
        ]


@admin.register(LabTask)
class LabTaskAdmin(admin.ModelAdmin):
    form = LabTaskForm
    list_display = ["activity", "lab", "kind", "attempts_allowed", "published"]
    list_filter = ["lab", "published"]
    list_select_related = ["activity", "lab"]
    search_fields = ["activity__title", "activity__slug"]
    autocomplete_fields = ["activity"]


@admin.register(TaskAttempt)
class TaskAttemptAdmin(ReadOnly, admin.ModelAdmin):
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
class RunAdmin(ReadOnly, admin.ModelAdmin):
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
