"""Every figure of the agent lab is drawn, whatever the run; numbers are short, and pages stay small."""

import json
import re

import pytest

from simworkers.agents.pictures.figure_parts import percent, round_up, short
from simworkers.agents.pictures.figures import draw
from tests.simworkers.agents.figure_scenes import (
    DEGENERATE,
    NAMES,
    SEVEN,
    curve,
    figures,
    report,
    report_of,
    turn,
    with_metrics,
)
from tests.simworkers.figures import check_dark_ink, check_pictures, check_spec, check_text

__all__ = ["figures", "report"]  # fixtures


def test_every_figure_of_the_catalogue_is_drawn_in_order(figures):
    assert list(figures) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_specs_keep_the_vega_lite_schema(figures, name):
    check_spec(figures[name])


@pytest.mark.parametrize("name", NAMES)
def test_svgs_have_no_background_and_pngs_are_pngs(figures, name):
    check_pictures(figures[name])


@pytest.mark.parametrize("name", NAMES)
def test_dark_pictures_differ_in_ink_alone(figures, name):
    check_dark_ink(figures[name])


@pytest.mark.parametrize("name", NAMES)
def test_text_can_be_read_on_its_ground(figures, name):
    check_text(figures[name])


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_runs_are_drawn(name):
    figures = draw(report_of(name))
    assert list(figures) == NAMES
    for figure in figures.values():
        check_spec(figure)
        assert not re.search(r"NaN|undefined|Infinity|null", figure.svg_light)


def test_the_same_report_is_drawn_the_same_twice(report, figures):
    assert draw(report) == figures


# Numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1k"),
        (1000, "1k"),
        (158_431, "158k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (3_264_000, "3.26M"),
        (2e9, "2G"),
    ],
)
def test_counts_are_written_short(count, said):
    assert short(count) == said


@pytest.mark.parametrize(
    ("share", "said"), [(0, "0.0%"), (0.9342, "93.4%"), (0.99996, "99.9%"), (1, "100.0%")]
)
def test_a_share_is_whole_only_if_nothing_is_missing(share, said):
    assert percent(share) == said


@pytest.mark.parametrize(("value", "top"), [(1, 1), (101, 120), (443_000, 500_000), (950, 1000)])
def test_axes_end_at_round_numbers(value, top):
    assert round_up(value) == top


# Size ------------------------------------------------------------------------------------------


def test_the_largest_report_stays_small(report):
    """As many rows as a report has at most."""
    rows = [turn(n % 100 + 1, n % 7, 100 + n, session=n // 100 + 1) for n in range(1200)]
    metrics = with_metrics(
        report,
        turns=[row | {"hbm_tokens": 123_456 + 100 * n} for n, row in enumerate(rows)],
        loads=[
            {"time_s": n // 16 * 61.123456, "replica": n % 16, "uncached_tokens": 1_000_000 + n}
            for n in range(48 * 16)
        ],
        residency=[
            {
                "time_s": n * 20.123456,
                "held_share": n / 400 + 0.01234567,
                "cached_share": 0.56789123,
                "host_share": n / 300,
                "pool_share": n / 200,
            }
            for n in range(120)
        ],
        curves=[curve(policy, 2**n, 10 + 5.1234567 * n, 20.123456 - n) for policy in SEVEN for n in range(5)],
    )
    for name, figure in draw(report.model_copy(update={"metrics": metrics})).items():
        assert len(json.dumps(figure.spec)) + len(figure.svg_light) <= 250_000, name
