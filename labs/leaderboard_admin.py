"""Staff see who is ranked by what, take an entry away, and have failed final runs computed again."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from labs.leaderboard import compute_again
from labs.models import FinalRun, LeaderboardEntry
from quiz.admin.base import CarefulLists
from quiz.admin.readonly import ReadOnly


class FinalRunInline(ReadOnly, admin.TabularInline):
    model = FinalRun
    readonly_fields = ["run", "engine_version", "state", "score", "tries", "reason", "fault", "computed_at"]
    fields = (*readonly_fields,)
    extra = 0
    show_change_link = False


@admin.register(LeaderboardEntry)
class LeaderboardEntryAdmin(CarefulLists):
    """The name is the learner's: it can be taken away with its entry, and not be changed."""

    list_display = ["display_name", "learner", "task", "offering", "final_runs", "created_at"]
    list_filter = ["offering", "task__lab"]
    list_select_related = ["learner", "task__activity", "offering"]
    search_fields = ["display_name", "learner__username", "task__activity__slug"]
    actions = ["compute_again"]
    inlines = [FinalRunInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[LeaderboardEntry]:
        rows: QuerySet[LeaderboardEntry] = super().get_queryset(request)
        return rows.prefetch_related("final_runs")

    @admin.display
    def final_runs(self, entry: LeaderboardEntry) -> str:
        """Of all editions, in the order of the graded runs."""
        finals = sorted(entry.final_runs.all(), key=lambda final: (final.run_id, final.pk))
        return ", ".join(
            FinalRun.State(final.state).label if final.score is None else f"{final.score:,.6g}"
            for final in finals
        )

    @admin.action(description="Compute failed final runs again", permissions=["delete"])
    def compute_again(self, request: HttpRequest, entries: QuerySet[LeaderboardEntry]) -> None:
        self.message_user(request, f"{compute_again(entries)} final run(s) wait for a worker.")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
