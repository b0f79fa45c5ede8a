"""What each turn found and computed, walked by a slider."""

import pytest
import vl_convert

from simworkers.agents.pictures.figures import draw
from simworkers.agents.pictures.turn_figures import draw_turn_tokens
from tests.simworkers.agents.figure_scenes import figures, report, report_of, turn, with_metrics

__all__ = ["figures", "report"]  # fixtures


def test_every_turn_has_a_row_whose_parts_add_up_to_its_prompt(report, figures):
    table = figures["turn-tokens"].table
    assert len(table) == len(report.metrics["turns"])
    parts = ("hbm_tokens", "host_tokens", "pool_tokens", "uncached_tokens")
    assert all(sum(row[part] for row in table) > 0 for part in parts)


def test_the_slider_walks_all_sessions(report):
    spec, _ = draw_turn_tokens(report.metrics, report.params)
    (slider,) = spec["params"]
    assert (slider["bind"]["min"], slider["bind"]["max"], slider["bind"]["step"]) == (1, 4, 1)


@pytest.mark.parametrize(("session", "last"), [(1, 4), (2, 13), (3, 4), (4, 30)])
def test_the_axis_of_turns_is_as_long_as_the_chosen_session(report, session, last):
    rows = [turn(1, 0, 0)] + [turn(n, 0, 0, session=2) for n in range(1, 14)]
    rows += [turn(n, 0, 0, session=4) for n in range(1, 31)]
    metrics = with_metrics(report, turns=rows)
    spec, _ = draw_turn_tokens(metrics, report.params | {"watched_session": session})
    spec["params"] = [{"name": "session", "value": session}]
    scenegraph = vl_convert.vegalite_to_scenegraph(spec | {"width": 600})
    assert labels_of(scenegraph)[-1] == str(last)


def labels_of(scenegraph):
    """Of the x axis."""
    found = []

    def walk(part):
        if part.get("role") == "axis-label":
            found.append([item["text"] for item in part["items"]])
        for inner in part.get("items", []):
            walk(inner)

    walk(scenegraph["scenegraph"])
    return found[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "Move the slider to another session. Shown: 2 of 16 sessions, main agents only, 3 of 569 requests.",
        ),
        ({"requests": 3}, "Move the slider to another session."),
        ({"turns": [turn(1, 0, 0)]}, "Shown: 1 of 16 sessions, main agents only, 1 of 569 requests."),
        ({"sessions": 569}, "Shown: 3 of 569 requests."),  # rows that name no session
    ],
)
def test_the_caption_says_which_requests_are_not_in_the_figure(report, changes, said):
    rows = [turn(1, 0, 0), turn(2, 0, 0), turn(1, 0, 0, session=2)]
    metrics = with_metrics(report, turns=rows, sessions=16, requests=569) | changes
    figure = draw(report.model_copy(update={"metrics": metrics}))["turn-tokens"]
    assert figure.caption.endswith(f"purple is what came out. {said}")


def test_the_slider_starts_at_the_watched_session(report):
    spec, _ = draw_turn_tokens(report.metrics, report.params | {"watched_session": 3})
    assert spec["params"][0]["value"] == 3


def test_a_lone_session_has_no_slider():
    report = report_of("one session, one replica")
    spec, _ = draw_turn_tokens(report.metrics, report.params)
    assert "bind" not in spec["params"][0]


def test_sessions_of_which_only_the_first_turns_are_shown_are_said_to_be(report):
    rows = [turn(number, 0, 0) for number in range(1, 101)]
    for count, title in ((99, "turn"), (100, "turn, the first 100 of each session")):
        metrics = with_metrics(report, turns=rows[:count], sessions=12)
        spec, _ = draw_turn_tokens(metrics, report.params)
        assert spec["encoding"]["x"]["title"] == title


def test_a_turn_that_goes_to_another_replica_is_marked(report):
    rows = [turn(1, 0, 1000), turn(2, 0, 0), turn(3, 2, 500), turn(4, 2, 0), turn(5, 0, 0)]
    spec, _ = draw_turn_tokens(with_metrics(report, turns=rows), report.params)
    assert spec["data"]["values"][0]["moved"] == [0, 0, 1, 0, 1]
    assert "Session 1: 70.0% of 5k tokens cached" in spec["title"]["text"]["expr"]


def test_a_session_of_which_nothing_was_served_says_so(report):
    rows = [turn(1, 0, 1000), turn(1, 0, 1000, session=3)]
    spec, _ = draw_turn_tokens(with_metrics(report, turns=rows), report.params | {"watched_session": 2})
    assert "Session 2: no turn was served" in spec["title"]["text"]["expr"]
