"""Cursor pagination: stable while rows are added, no counting."""

from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    """Newest first, by primary key; `?cursor=` comes from the `next` link."""

    ordering = "-pk"
    page_size_query_param = "page_size"
    max_page_size = 200
