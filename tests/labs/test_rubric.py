"""Judging a report: pure, exact, and never a zero where the report is at fault."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from labs.criteria import Unmeasured
from labs.rubric import Rubric, compare_prediction, grade, unknown_names
from simworkers import catalog

GATE = {
    "name": "fits",
    "title": "Fits",
    "kind": "exact",
    "metric": "within",
    "equals": 1,
    "points": "0",
    "feedback": "It does not fit.",
}
BALANCE = {
    "name": "balance",
    "title": "Balance",
    "kind": "between",
    "metric": "reached",
    "baseline": "before",
    "bound": "floor",
    "bands": 20,
    "points": "9",
    "requires": ["fits"],
    "feedback": "Not yet.",
}
PREDICTED = {
    "name": "predicted",
    "title": "Predicted",
    "kind": "prediction_made",
    "points": "1",
    "feedback": "Predict.",
}


def rubric(*criteria: dict[str, Any]) -> Rubric:
    return Rubric.model_validate({"criteria": criteria})


def values(**changes: Any) -> dict[str, Any]:
    return {"within": 1, "reached": 1.5, "before": 2.0, "floor": 1.0, **changes}


def test_halfway_between_baseline_and_bound_earns_half_the_points():
    sheet = grade(values(), rubric(GATE, BALANCE))
    assert (sheet.earned, sheet.score) == (Decimal("4.5"), Decimal("0.5"))


def test_reaching_the_bound_earns_everything():
    assert grade(values(reached=1.0), rubric(GATE, BALANCE)).score == 1


def test_worse_than_the_baseline_earns_nothing_and_not_less():
    assert grade(values(reached=2.7), rubric(GATE, BALANCE)).score == 0


def test_better_than_the_bound_earns_no_more_than_everything():
    assert grade(values(reached=0.9), rubric(GATE, BALANCE)).score == 1


def test_a_missed_requirement_blocks_what_depends_on_it():
    sheet = grade(values(within=0, reached=1.0), rubric(GATE, BALANCE))
    assert sheet.score == 0
    assert sheet.criteria[1].blocked_by == ["fits"]


def test_a_requirement_that_is_met_says_nothing_and_a_missed_one_says_its_feedback():
    assert grade(values(), rubric(GATE, BALANCE)).criteria[0].feedback == ""
    assert grade(values(within=0), rubric(GATE, BALANCE)).criteria[0].feedback == "It does not fit."


def test_a_prediction_earns_its_credit_whether_or_not_it_comes_true():
    sheet = grade(values(reached=2.0), rubric(GATE, BALANCE, PREDICTED), prediction={"gpu": 9})
    assert sheet.earned == 1


def test_no_prediction_earns_no_credit_for_one():
    assert grade(values(reached=2.0), rubric(GATE, BALANCE, PREDICTED)).earned == 0


def test_an_empty_rubric_is_refused_and_so_never_passes():
    with pytest.raises(ValidationError):
        rubric()


def test_a_rubric_without_points_is_refused_and_so_never_passes():
    with pytest.raises(ValidationError, match="nothing could be earned"):
        rubric(GATE)


def test_a_criterion_that_requires_a_later_one_is_refused():
    with pytest.raises(ValidationError, match="no earlier criterion"):
        rubric(BALANCE, GATE)


def test_two_criteria_of_one_name_are_refused():
    with pytest.raises(ValidationError, match="two criteria"):
        rubric(BALANCE | {"requires": []}, BALANCE | {"requires": []})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, "1.5", True])
def test_a_metric_that_is_no_finite_number_is_our_fault_and_not_a_zero(bad):
    with pytest.raises(Unmeasured, match="reached"):
        grade(values(reached=bad), rubric(GATE, BALANCE))


def test_a_missing_metric_is_our_fault_and_not_a_zero():
    without = values()
    del without["floor"]
    with pytest.raises(Unmeasured, match="floor"):
        grade(without, rubric(GATE, BALANCE))


@pytest.mark.parametrize("before", [1.0, 0.9])
def test_a_baseline_as_good_as_the_bound_or_better_cannot_be_judged(before):
    with pytest.raises(Unmeasured, match="nothing lies between"):
        grade(values(before=before), rubric(GATE, BALANCE))


def test_where_more_is_better_the_bound_lies_above_the_baseline():
    throughput = BALANCE | {"more_is_better": True}
    report = values(before=1.0, floor=2.0, reached=1.75)
    assert grade(report, rubric(GATE, throughput)).score == Decimal("0.75")
    with pytest.raises(Unmeasured):
        grade(values(), rubric(GATE, throughput))


def test_bands_give_the_share_of_the_first_that_holds():
    bands = {
        "name": "itl",
        "title": "ITL",
        "kind": "bands",
        "metric": "itl_ms",
        "bands": [{"at_most": 20, "share": "1"}, {"at_most": 30, "share": "0.4"}],
        "points": "5",
        "feedback": "Slower than the floor.",
    }
    assert [grade({"itl_ms": ms}, rubric(bands)).earned for ms in (20, 25.0, 31)] == [5, 2, 0]


PLACED = {
    "name": "placed",
    "title": "Placed",
    "kind": "piecewise",
    "metric": "reached",
    "anchors": [
        {"metric": "before", "share": "0"},
        {"metric": "reference", "share": "0.6"},
        {"metric": "floor", "share": "1"},
    ],
    "points": "10",
    "feedback": "Not yet.",
}


@pytest.mark.parametrize(
    ("reached", "earned"),
    [(2.5, "0"), (2.0, "0"), (1.6, "3"), (1.2, "6"), (1.1, "8"), (1.0, "10"), (0.9, "10")],
)
def test_a_piecewise_score_is_linear_between_its_anchors(reached, earned):
    report = values(reached=reached, reference=1.2)
    assert grade(report, rubric(PLACED)).earned == Decimal(earned)


def test_anchors_in_the_wrong_order_cannot_be_judged():
    with pytest.raises(Unmeasured, match="do not lead"):
        grade(values(reference=0.9), rubric(PLACED))


def test_anchors_whose_shares_do_not_rise_are_refused():
    with pytest.raises(ValidationError, match="must rise"):
        rubric(PLACED | {"anchors": list(reversed(PLACED["anchors"]))})


GUESSED = {
    "name": "guessed",
    "title": "Guessed",
    "kind": "predicted_within",
    "field": "ratio",
    "metric": "reached",
    "bands": [{"within_factor": 1.1, "share": "1"}, {"within_factor": 1.25, "share": "0.5"}],
    "points": "4",
    "feedback": "Off.",
}


@pytest.mark.parametrize(
    ("ratio", "earned"), [(1.5, 4), (1.65, 4), (1.364, 4), (1.8, 2), (2.0, 0), (0, 0), ("x", 0)]
)
def test_a_prediction_task_scores_how_far_off_the_prediction_was(ratio, earned):
    assert grade(values(), rubric(GUESSED), prediction={"ratio": ratio}).earned == earned


def test_a_prediction_task_compares_an_index_exactly():
    named = {
        "name": "gpu",
        "title": "GPU",
        "kind": "predicted_exactly",
        "field": "gpu",
        "metric": "straggler",
    }
    named |= {"points": "1", "feedback": "Another one."}
    for gpu, earned in ((2, 1), (3, 0), (None, 0)):
        assert grade(values(straggler=2), rubric(named), prediction={"gpu": gpu}).earned == earned


def test_a_predicted_field_that_does_not_exist_is_named():
    job = catalog.get_job("moe-eplb")
    wrong = GUESSED | {"metric": "max_over_mean_mean"}
    assert unknown_names(rubric(wrong), job, job.tasks["balance-hbm"]) == [
        "guessed: the prediction has no field 'ratio'"
    ]


@given(reached=st.floats(0.5, 3), nudge=st.integers(-4, 4))
def test_a_difference_in_the_last_bits_moves_the_score_by_one_band_at_most(reached, nudge):
    one = grade(values(reached=reached), rubric(GATE, BALANCE)).score
    other = grade(values(reached=reached * (1 + nudge * 2.0**-52)), rubric(GATE, BALANCE)).score
    assert abs(one - other) <= Decimal("0.05")


@pytest.mark.parametrize("band", range(21))
def test_a_value_on_the_edge_of_a_band_reaches_it_in_spite_of_rounding(band):
    reached = 2.0 - band / 20
    for value in (reached, reached * (1 + 2.0**-52), reached * (1 - 2.0**-52)):
        assert grade(values(reached=value), rubric(GATE, BALANCE)).score == Decimal(band) / 20


@given(reached=st.floats(-10, 10), before=st.floats(1.2, 9), within=st.integers(0, 1))
def test_every_score_lies_between_zero_and_one_with_four_places(reached, before, within):
    sheet = grade(values(reached=reached, before=before, within=within), rubric(GATE, BALANCE, PREDICTED))
    assert 0 <= sheet.score <= 1
    assert sheet.score == sheet.score.quantize(Decimal("0.0001"))


def test_a_metric_that_the_lab_does_not_report_is_named():
    job = catalog.get_job("moe-eplb")
    problems = unknown_names(rubric(GATE, BALANCE), job, job.tasks["balance-hbm"])
    assert len(problems) == 4
    assert "'within'" in problems[0]


def test_a_prediction_stands_beside_what_came_out():
    rows = compare_prediction({"gpu": 2}, {"gpu": "straggler"}, {"straggler": 3})
    assert rows == [{"field": "gpu", "predicted": 2, "metric": "straggler", "actual": 3}]
