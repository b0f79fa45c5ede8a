"""What each turn found and computed, walked by a slider."""

from simworkers.agents.pictures.turn_figures import draw_turn_tokens
from tests.simworkers.agents.figure_scenes import figures, report, report_of, turn, with_metrics

__all__ = ["figures", "report"]  # fixtures


def test_every_turn_has_a_row_whose_parts_add_up_to_its_prompt(report, figures):
    table = figures["turn-tokens"].table
    assert len(table) == len(report.metrics["turns"])
    parts = ("hbm_tokens", "host_tokens", "pool_tokens", "new_tokens")
    assert all(sum(row[part] for row in table) > 0 for part in parts)


def test_the_slider_walks_all_sessions_and_the_axes_stay(report):
    spec, _ = draw_turn_tokens(report.metrics, report.params)
    (slider,) = spec["params"]
    assert (slider["bind"]["min"], slider["bind"]["max"], slider["bind"]["step"]) == (1, 4, 1)
    turns = max(row["turn"] for row in report.metrics["turns"])
    assert spec["encoding"]["x"]["scale"]["domain"] == [0.5, turns + 0.5]
    assert spec["encoding"]["y"]["scale"]["domain"][0] == 0


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
