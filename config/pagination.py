"""Cursor pagination: stable while rows are added, no counting."""

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request


class NewestFirst(CursorPagination):
    """Newest first, by primary key, or as the view's `ordering` says; `?cursor=` comes from the `next` link.

    What a view orders by first must be a number of its rows.
    """

    ordering = "-pk"
    page_size_query_param = "page_size"
    max_page_size = 200

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> Any:
        return getattr(view, "ordering", (self.ordering,))

    def decode_cursor(self, request: Request) -> Cursor | None:
        cursor = super().decode_cursor(request)
        place = None if cursor is None or cursor.position is None else str(cursor.position)
        # A cursor that somebody made up would reach the database, and break there.
        if place is not None and not (place.isascii() and place.isdigit() and len(place) < 19):
            raise NotFound(self.invalid_cursor_message)
        return cursor
