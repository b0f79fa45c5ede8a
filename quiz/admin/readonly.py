"""Rows that are looked at and never edited."""

from typing import Any

from django.http import HttpRequest


class ReadOnly:
    """For a ModelAdmin or an inline: no adding, no changing, no deleting."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
