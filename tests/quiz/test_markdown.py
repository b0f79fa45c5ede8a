from html.parser import HTMLParser

import pytest

from quiz.markdown import render


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '<img src=x onerror="alert(1)">',
        "[x](javascript:alert(1))",
        '<a href="javascript:alert(1)">x</a>',
        "![x](javascript:alert(1))",
        '<p style="position:fixed">x</p>',
    ],
)
def test_nothing_that_runs_or_restyles_survives(text):
    for tag, attributes in tags_of(str(render(text))):
        assert tag != "script"
        for name, value in attributes:
            assert name != "style"
            assert not name.startswith("on")
            assert not (value or "").startswith("javascript")


class TagCollector(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))


def tags_of(html):
    collector = TagCollector()
    collector.feed(html)
    return collector.found


def test_tables_code_and_links_are_rendered():
    html = str(render("| a |\n|---|\n| `b` |\n\n[c](https://example.org)"))
    assert "<table>" in html
    assert "<code>b</code>" in html
    assert 'href="https://example.org"' in html
