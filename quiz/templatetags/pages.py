"""Small things that pages need: `{% load pages %}`."""

import re
import secrets
from decimal import Decimal

import nh3
from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from quiz.markdown import RENDERER, render

register = template.Library()

INLINE_TAGS = {"code", "em", "strong", "s"}


@register.filter
def inline_markdown(text: str) -> SafeString:
    """Markdown for where only a line of text may stand, as in a label: no paragraphs, no links."""
    return mark_safe(nh3.clean(RENDERER.renderInline(text), tags=INLINE_TAGS, attributes={}))


@register.simple_tag
def once() -> SafeString:
    """Makes the form it stands in one that is carried out once, see quiz.views.once."""
    return format_html('<input type="hidden" name="once" value="{}">', secrets.token_urlsafe(12))


@register.filter
def plain_number(value: object) -> str:
    """A Decimal without trailing zeros: 10.00 → 10, 7.50 → 7.5."""
    text = str(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


@register.filter
def percent(share: Decimal | float | str) -> str:
    """A share in [0, 1] as a percentage without needless places: 0.6 → 60%, 0.8125 → 81.25%."""
    return f"{plain_number((Decimal(str(share)) * 100).quantize(Decimal('0.01')))}%"


HEADING = re.compile(r"<(/?)h([1-6])>")


@register.filter
def markdown_from(text: str, level: int) -> SafeString:
    """Markdown whose topmost heading has the level that the page needs there, whatever its author counted from."""
    html = render(text)
    levels = [int(found[1]) for found in HEADING.findall(html)]
    shift = level - min(levels, default=level)
    return mark_safe(HEADING.sub(lambda tag: f"<{tag[1]}h{min(6, int(tag[2]) + shift)}>", html))
