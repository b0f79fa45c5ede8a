from django.contrib import admin

from quiz.admin.base import CarefulLists
from quiz.admin.readonly import ReadOnly
from quiz.models import Attempt, Quiz, QuizQuestion, Response


class PlaceInline(admin.TabularInline):
    model = QuizQuestion
    extra = 0
    autocomplete_fields = ["question"]


@admin.register(Quiz)
class QuizAdmin(CarefulLists):
    list_display = ["activity", "course", "attempts_allowed", "question_count"]
    list_filter = ["activity__course"]
    list_select_related = ["activity__course"]
    search_fields = ["activity__title", "activity__slug"]
    autocomplete_fields = ["activity"]
    inlines = [PlaceInline]

    @admin.display(ordering="activity__course")
    def course(self, quiz: Quiz) -> str:
        return str(quiz.activity.course)

    @admin.display(description="questions")
    def question_count(self, quiz: Quiz) -> int:
        return quiz.places.count()


class ResponseInline(ReadOnly, admin.TabularInline):
    model = Response
    readonly_fields = ["position", "version", "choice", "confidence", "credit", "updated_at"]
    extra = 0


@admin.register(Attempt)
class AttemptAdmin(ReadOnly, CarefulLists):
    """To look at. A score changes through the grade, by hand and with a reason."""

    list_display = ["quiz", "learner", "offering", "number", "state", "score", "started_at", "submitted_at"]
    list_filter = ["state", "offering", "quiz"]
    list_select_related = ["quiz__activity", "learner", "offering"]
    search_fields = ["learner__username", "public_id"]
    date_hierarchy = "started_at"
    inlines = [ResponseInline]
