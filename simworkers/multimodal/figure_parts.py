"""What the figures of the multimodal lab share."""

from typing import Any

Spec = dict[str, Any]
Rows = list[dict[str, Any]]


def headline(text: str | Spec, below: str) -> Spec:
    return {"text": text, "subtitle": below, "subtitleFontSize": 12, "offset": 12}


def tooltip(**titles: str) -> Rows:
    """A tooltip of these fields under these titles."""
    return [{"field": field, "title": title} for field, title in titles.items()]
