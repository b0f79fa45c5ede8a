"""Marking: pure, in Decimal with four places. No Django, no clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

PLACES = Decimal("0.0001")
NONE = Decimal("0.0000")
FULL = Decimal("1.0000")

# Within this distance, in percentage points, sureness and correctness count as matching.
CALIBRATED_WITHIN = 10
# Fewer answers say nothing about anyone's judgement.
ENOUGH_ANSWERS = 3


def exact_score(value: Decimal | float | int | str) -> Decimal:
    """The value as a score: 0 to 1, rounded half up to four places. ValueError for everything else.

    A float goes through its shortest text, so that 0.1 is 0.1000 and not 0.1000000000000000055.
    """
    if isinstance(value, bool):
        raise ValueError("a score must be a number, not a boolean")
    try:
        score = value if isinstance(value, Decimal) else Decimal(str(value))
    except InvalidOperation as exc:
        raise ValueError(f"a score must be a number, not {value!r}") from exc
    if not score.is_finite():
        raise ValueError(f"a score must be finite, not {score}")
    if not 0 <= score <= 1:
        raise ValueError(f"a score lies between 0 and 1, not at {score}")
    return score.quantize(PLACES, rounding=ROUND_HALF_UP)


def mark_choice(choice: str, correct: str) -> Decimal:
    """Credit of one response: full for the correct option, none for another or for no answer."""
    if not correct:
        raise ValueError("a question without a correct option cannot be marked")
    return FULL if choice == correct else NONE


def mark_attempt(credits: Sequence[Decimal]) -> Decimal:
    """The mean credit over the questions *served*. Serving none is our mistake, and never a pass."""
    if not credits:
        raise ValueError("an attempt without questions cannot be marked")
    return exact_score(sum(credits, NONE) / len(credits))


@dataclass(frozen=True)
class Calibration:
    """How sure somebody was beside how often they were right, both in percent."""

    answers: int
    mean_confidence: int
    percent_correct: int
    note: str


def calibrate(answers: Iterable[tuple[int | None, bool]]) -> Calibration | None:
    """answers: (confidence in percent or None, was it correct). None where no confidence was given.

    It is shown to the learner and never changes a score.
    """
    given = [(sure, right) for sure, right in answers if sure is not None]
    if not given:
        return None
    mean = rounded_percent(sum(sure for sure, _ in given), len(given))
    right = rounded_percent(100 * sum(1 for _, right in given if right), len(given))
    return Calibration(len(given), mean, right, calibration_note(mean, right, given))


def calibration_note(mean: int, right: int, given: list[tuple[int, bool]]) -> str:
    opening = f"You were {mean}% sure on average and right on {right}% of {counted(len(given))}"
    if len(given) < ENOUGH_ANSWERS:
        return f"{opening}: too few to say how well you judge yourself."
    if abs(mean - right) <= CALIBRATED_WITHIN:
        verdict = "Your confidence matches your results."
    elif mean > right:
        verdict = "You were surer than your results support."
    else:
        verdict = "You knew more than you trusted."
    surest_miss = max((sure for sure, right in given if not right), default=None)
    hint = (
        ""
        if surest_miss is None or surest_miss < 75
        else f" Start with the miss you were {surest_miss}% sure of."
    )
    return f"{opening}. {verdict}{hint}"


def counted(answers: int) -> str:
    return "one answer" if answers == 1 else f"{answers} answers"


def rounded_percent(numerator: int, denominator: int) -> int:
    return int((Decimal(numerator) / denominator).quantize(Decimal(1), rounding=ROUND_HALF_UP))
