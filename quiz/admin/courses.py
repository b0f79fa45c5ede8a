from django.contrib import admin

from quiz.admin.base import CarefulLists
from quiz.models import Activity, Course, Enrollment, Offering, Section


class SectionInline(admin.TabularInline):
    model = Section
    fields = ["position", "slug", "title"]
    extra = 0
    show_change_link = True


class ActivityInline(admin.TabularInline):
    model = Activity
    fields = ["position", "slug", "kind", "title", "points"]
    extra = 0
    show_change_link = True


@admin.register(Course)
class CourseAdmin(CarefulLists):
    list_display = ["title", "slug", "level", "minutes"]
    list_filter = ["level"]
    search_fields = ["title", "slug"]
    inlines = [SectionInline, ActivityInline]


@admin.register(Section)
class SectionAdmin(CarefulLists):
    list_display = ["title", "course", "position", "slug"]
    list_filter = ["course"]
    search_fields = ["title", "slug", "body"]
    autocomplete_fields = ["course"]


@admin.register(Activity)
class ActivityAdmin(CarefulLists):
    list_display = ["title", "slug", "kind", "course", "position", "points"]
    list_filter = ["kind", "course"]
    search_fields = ["title", "slug"]
    autocomplete_fields = ["course"]


@admin.register(Offering)
class OfferingAdmin(CarefulLists):
    list_display = ["title", "slug", "course", "self_enrolment", "opens_at", "closes_at"]
    list_filter = ["course", "self_enrolment"]
    search_fields = ["title", "slug"]
    autocomplete_fields = ["course"]


@admin.register(Enrollment)
class EnrollmentAdmin(CarefulLists):
    list_display = ["learner", "offering", "role", "created_at"]
    list_filter = ["offering", "role"]
    list_select_related = ["learner", "offering"]
    search_fields = ["learner__username", "offering__slug"]
    autocomplete_fields = ["learner", "offering"]
