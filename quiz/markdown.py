"""Markdown of authors to HTML that may stand on a page: rendered, then cleaned by an allow-list."""

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

RENDERER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])

TAGS = {
    *("p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "a", "img"),
    *("ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt", "title"}, "code": {"class"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}


def render(text: str) -> SafeString:
    """HTML without scripts, styles, event handlers or strange link schemes, whatever the text holds."""
    clean = nh3.clean(RENDERER.render(text), tags=TAGS, attributes=ATTRIBUTES, url_schemes=SCHEMES)
    return mark_safe(clean)
