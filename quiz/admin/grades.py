from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from quiz import services
from quiz.admin.base import CarefulLists
from quiz.admin.readonly import ReadOnly
from quiz.marking import exact_score
from quiz.models import Enrollment, Grade, GradeChange, Learner


class GradeForm(forms.ModelForm):
    """Setting a grade by hand. It needs a reason, and no later result changes it."""

    reason = forms.CharField(
        widget=forms.Textarea(attrs={"rows": 3}), help_text="Stands in the record of changes, with your name."
    )

    class Meta:
        model = Grade
        fields = ["offering", "learner", "activity", "score"]

    def clean_score(self) -> Decimal:
        try:
            return exact_score(self.cleaned_data["score"])
        except ValueError as exc:
            raise ValidationError(str(exc)) from exc

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        offering, learner, activity = (values.get(name) for name in ("offering", "learner", "activity"))
        if offering and activity and activity.course_id != offering.course_id:
            self.add_error("activity", f"Is not an activity of {offering.course}.")
        if (
            offering
            and learner
            and not Enrollment.objects.filter(offering=offering, learner=learner).exists()
        ):
            self.add_error("learner", f"Is not enrolled in {offering}.")
        return values


class GradeChangeInline(ReadOnly, admin.TabularInline):
    model = GradeChange
    readonly_fields = [
        "revision",
        "old_score",
        "new_score",
        "source",
        "reason",
        "changed_by",
        "created_at",
    ]
    extra = 0


@admin.register(Grade)
class GradeAdmin(CarefulLists):
    form = GradeForm
    fields = ["offering", "learner", "activity", "score", "reason"]
    list_display = ["learner", "activity", "offering", "score", "revision", "manual", "updated_at"]
    list_filter = ["manual", "offering", "activity"]
    list_select_related = ["learner", "activity", "offering"]
    search_fields = ["learner__username", "activity__slug"]
    autocomplete_fields = ["offering", "learner", "activity"]
    inlines = [GradeChangeInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Grade | None = None) -> list[str]:
        return ["offering", "learner", "activity"] if obj else []

    def has_delete_permission(self, request: HttpRequest, obj: Grade | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Grade, form: Any, change: bool) -> None:
        assert isinstance(request.user, Learner)
        grade = services.set_manual_grade(
            learner=obj.learner,
            offering=obj.offering,
            activity=obj.activity,
            score=form.cleaned_data["score"],
            reason=form.cleaned_data["reason"],
            by=request.user,
        )
        obj.pk = grade.pk
        obj.refresh_from_db()


@admin.register(GradeChange)
class GradeChangeAdmin(ReadOnly, CarefulLists):
    list_display = ["grade", "revision", "old_score", "new_score", "source", "changed_by", "created_at"]
    list_filter = ["grade__offering", "grade__activity"]
    list_select_related = ["grade__learner", "grade__activity", "changed_by"]
    search_fields = ["grade__learner__username", "source", "reason"]
    date_hierarchy = "created_at"
