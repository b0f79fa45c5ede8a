"""What every page of the admin shares: a list that survives whatever stands in its address."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db import DataError
from django.http import HttpRequest


class CarefulChangeList(ChangeList):
    """Django finds out only while it asks the database that there is no year 99999; its own answer to a wrong
    filter is the list without it."""

    def get_results(self, request: HttpRequest) -> None:
        try:
            super().get_results(request)
        except (ValueError, OverflowError, DataError) as exc:
            raise IncorrectLookupParameters from exc


class CarefulLists(admin.ModelAdmin):
    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return CarefulChangeList
