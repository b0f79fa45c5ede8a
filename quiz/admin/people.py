from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from knox.models import AuthToken

from quiz.admin.base import CarefulLists
from quiz.models import Enrollment, Learner

# Its page makes a token for whoever is chosen, and shows it: more than anyone needs. Tokens come over REST.
admin.site.unregister(AuthToken)


class EnrollmentInline(admin.TabularInline):
    model = Enrollment
    extra = 0
    autocomplete_fields = ["offering"]


@admin.register(Learner)
class LearnerAdmin(CarefulLists, UserAdmin):
    list_display = ["username", "email", "is_staff", "is_active", "date_joined", "last_login"]
    list_filter = ["is_staff", "is_active", "offerings"]
    search_fields = ["username", "email", "public_id"]
    readonly_fields = ["public_id"]
    fieldsets = [*(UserAdmin.fieldsets or []), ("For other systems", {"fields": ["public_id"]})]
    inlines = [EnrollmentInline]
