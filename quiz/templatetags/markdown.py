"""`{% load markdown %} {{ text|markdown }}`."""

from django import template
from django.utils.safestring import SafeString

from quiz.markdown import render

register = template.Library()


@register.filter
def markdown(text: str) -> SafeString:
    return render(text)
