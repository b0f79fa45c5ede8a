"""Marking is pure: properties over all inputs."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiz import marking

unit = st.decimals(min_value=0, max_value=1, allow_nan=False, allow_infinity=False, places=9)
answers = st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=1, max_size=20)


@given(unit)
def test_a_score_has_four_places_and_stays_within_half_of_the_last(value):
    score = marking.exact_score(value)
    assert score.as_tuple().exponent == -4
    assert 0 <= score <= 1
    assert abs(score - value) <= Decimal("0.00005")


@given(st.one_of(st.floats(max_value=-1e-300), st.floats(min_value=1.0000001), st.just(float("nan"))))
def test_what_is_no_score_is_refused(value):
    with pytest.raises(ValueError):
        marking.exact_score(value)


@pytest.mark.parametrize("value", ["", "x", "NaN", "sNaN", "Infinity", True, Decimal("-0.0001")])
def test_texts_and_booleans_that_are_no_score_are_refused(value):
    with pytest.raises(ValueError):
        marking.exact_score(value)


def test_a_float_is_read_by_its_shortest_text():
    assert marking.exact_score(0.1) == Decimal("0.1000")
    assert marking.exact_score(0.00005) == Decimal("0.0001")


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_the_score_is_the_share_of_right_answers(rights):
    credits = [marking.mark_choice("b" if right else "a", "b") for right in rights]
    exact = Decimal(sum(rights)) / len(rights)
    assert abs(marking.mark_attempt(credits) - exact) <= Decimal("0.00005")


@given(st.lists(st.sampled_from([marking.NONE, marking.FULL]), min_size=1), st.data())
def test_getting_one_more_right_never_lowers_the_score(credits, data):
    index = data.draw(st.integers(0, len(credits) - 1))
    better = [*credits[:index], marking.FULL, *credits[index + 1 :]]
    assert marking.mark_attempt(better) >= marking.mark_attempt(credits)


def test_no_answer_earns_nothing():
    assert marking.mark_choice("", "b") == 0


def test_an_attempt_that_served_nothing_is_an_error_and_no_pass():
    with pytest.raises(ValueError):
        marking.mark_attempt([])


@given(answers)
def test_calibration_reports_means_in_percent(pairs):
    found = marking.calibrate(pairs)
    assert found is not None
    assert found.answers == len(pairs)
    assert abs(found.mean_confidence - sum(sure for sure, _ in pairs) / len(pairs)) <= 0.5
    assert abs(found.percent_correct - 100 * sum(right for _, right in pairs) / len(pairs)) <= 0.5


def test_without_any_confidence_there_is_no_calibration():
    assert marking.calibrate([(None, True), (None, False)]) is None


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ([(95, False), (90, False), (85, True)], "surer than your results"),
        ([(20, True), (30, True), (40, True)], "more than you trusted"),
        ([(60, True), (60, False), (60, True)], "matches your results"),
        ([(20, True), (40, True)], "too few"),
    ],
)
def test_the_note_says_which_way_confidence_was_off(pairs, verdict):
    found = marking.calibrate(pairs)
    assert found is not None
    assert verdict in found.note


def test_the_note_points_at_the_surest_miss():
    found = marking.calibrate([(95, False), (80, False), (85, True)])
    assert found is not None
    assert "95% sure" in found.note
