"""Writing, previewing and publishing questions."""

from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from quiz import services
from quiz.admin.base import CarefulLists
from quiz.admin.question_forms import OptionForm, OptionFormSet, QuestionVersionForm
from quiz.api.disclosure import preview_document
from quiz.errors import Refusal
from quiz.models import Option, Question, QuestionVersion
from quiz.services.questions import lock_question, next_number


@admin.register(Question)
class QuestionAdmin(CarefulLists):
    list_display = ["slug", "activity", "version_count", "serving"]
    list_select_related = ["activity"]
    search_fields = ["slug"]
    autocomplete_fields = ["activity"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Question]:
        return super().get_queryset(request).annotate(version_count=Count("versions"))

    @admin.display(description="versions", ordering="version_count")
    def version_count(self, question: Any) -> str:
        url = reverse("admin:quiz_questionversion_changelist")
        return format_html(
            '<a href="{}?question__id__exact={}">{}</a>', url, question.pk, question.version_count
        )

    @admin.display(description="served now")
    def serving(self, question: Question) -> str:
        current = question.current_version()
        return "nothing yet" if current is None else f"version {current.number}"


class OptionInline(admin.StackedInline):
    model = Option
    form = OptionForm
    formset = OptionFormSet
    fields = ["key", "correct", "text", "feedback"]
    extra = 0
    min_num = 2

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_draft(obj) and super().has_add_permission(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_draft(obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return is_draft(obj) and super().has_delete_permission(request, obj)


@admin.register(QuestionVersion)
class QuestionVersionAdmin(CarefulLists):
    """A draft is edited; what is published is only looked at, and copied into the next draft."""

    form = QuestionVersionForm
    fields = ["question", "stem", "explanation", "staff_points"]
    list_display = ["__str__", "question", "number", "published_at"]
    list_filter = [("published_at", admin.EmptyFieldListFilter), "question"]
    list_select_related = ["question"]
    search_fields = ["question__slug", "stem"]
    autocomplete_fields = ["question"]
    inlines = [OptionInline]
    actions = ["publish_selected", "edit_selected"]

    def get_readonly_fields(self, request: HttpRequest, obj: QuestionVersion | None = None) -> list[str]:
        return ["question"] if obj else []

    def has_change_permission(self, request: HttpRequest, obj: QuestionVersion | None = None) -> bool:
        return is_draft(obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: QuestionVersion | None = None) -> bool:
        return is_draft(obj) and super().has_delete_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: QuestionVersion, form: Any, change: bool) -> None:
        if not change:
            lock_question(obj.question_id)
            obj.number = next_number(obj.question)
        super().save_model(request, obj, form, change)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Writes a draft's options anew: keys or the right answer may have changed places, which no order
        of single updates gets past the unique constraints. Nothing refers to the options of a draft."""
        formset.save(commit=False)
        version = formset.instance
        version.options.all().delete()
        Option.objects.bulk_create(Option(version=version, **values) for values in formset.written_options())

    def get_urls(self) -> list[URLPattern]:
        guarded = self.admin_site.admin_view
        return [
            path("<int:pk>/preview/", guarded(self.preview), name="quiz_questionversion_preview"),
            path(
                "<int:pk>/publish/", guarded(require_POST(self.publish)), name="quiz_questionversion_publish"
            ),
            path("<int:pk>/edit/", guarded(require_POST(self.edit)), name="quiz_questionversion_edit"),
            *super().get_urls(),
        ]

    def preview(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The version as a learner will see it, and below what they read after submission."""
        version = get_object_or_404(QuestionVersion, pk=pk)
        if not self.has_view_permission(request, version):
            return HttpResponse(status=403)
        context = {
            **self.admin_site.each_context(request),
            "title": f"Preview of {version}",
            "opts": self.opts,
            "version": version,
            "question": preview_document(version),
            "may_publish": self.has_change_permission(request, version),
        }
        return TemplateResponse(request, "admin/quiz/questionversion/preview.html", context)

    def publish(self, request: HttpRequest, pk: int) -> HttpResponse:
        version = get_object_or_404(QuestionVersion, pk=pk)
        if not super().has_change_permission(request, version):
            return HttpResponse(status=403)
        self.publish_one(request, version)
        return HttpResponseRedirect(version_url(version))

    def publish_one(self, request: HttpRequest, version: QuestionVersion) -> None:
        try:
            services.publish_question(version=version)
        except Refusal as exc:
            self.message_user(request, f"{version}: {exc.detail}", messages.ERROR)
        else:
            self.message_user(request, f"{version} is published and never changes now.", messages.SUCCESS)

    def edit(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Open the question's draft; where there is none, a copy of what is published becomes it."""
        version = get_object_or_404(QuestionVersion, pk=pk)
        if not super().has_change_permission(request, version):
            return HttpResponse(status=403)
        return HttpResponseRedirect(version_url(services.start_draft(question=version.question)))

    @admin.action(description="Publish the selected drafts", permissions=["change"])
    def publish_selected(self, request: HttpRequest, queryset: QuerySet[QuestionVersion]) -> None:
        for version in queryset:
            self.publish_one(request, version)

    @admin.action(description="Begin the next version of the selected questions", permissions=["change"])
    def edit_selected(self, request: HttpRequest, queryset: QuerySet[QuestionVersion]) -> None:
        with transaction.atomic():
            drafts = [
                services.start_draft(question=q)
                for q in Question.objects.filter(versions__in=queryset).distinct()
            ]
        self.message_user(request, f"Drafts: {', '.join(map(str, drafts))}.", messages.SUCCESS)


def is_draft(version: QuestionVersion | None) -> bool:
    return version is None or not version.is_published


def version_url(version: QuestionVersion) -> str:
    return reverse("admin:quiz_questionversion_change", args=[version.pk])
