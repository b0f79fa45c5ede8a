"""Computing a stored run again and saying how equal the two reports are, and why not. Never writes.

Bit-equality is promised for the same engine version, torch version and CPU capability. Where one of these differs,
counts must be equal, floats within the tolerance that a rubric's bands forgive, and the criteria judged the same.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from labs import rubric, runner
from labs.criteria import EDGE, Unmeasured
from labs.execution import Unusable, checked_report, input_files, limits, rubric_of
from labs.models import Run

FIRST = 10  # differences that are named; all are counted
# What decides a float's last bits, by the names that provenance uses.
ARITHMETIC = ("torch", "cpu_capability")
COMPARED = ("lab", "seed", "params", "metrics", "invariants")
ABSENT = "absent"


class Verdict(StrEnum):
    BIT_EQUAL = "bit-equal"
    WITHIN_BANDS = "equal within bands"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True)
class Difference:
    """One value. `path` is dotted, with list indices: metrics.gpu_load.0.3"""

    path: str
    stored: Any
    recomputed: Any

    def __str__(self) -> str:
        return f"{self.path}: stored {self.stored!r}, recomputed {self.recomputed!r}"


@dataclass
class Verification:
    """What was found. `comparison` is the one that could be made: "bitwise", "bands", or "" for none."""

    run: str
    verdict: Verdict = Verdict.NOT_COMPARED
    comparison: str = ""
    reasons: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    differences_total: int = 0
    score: str = ""
    score_stands: bool | None = None  # None: a free run, or judged by a rubric that is no longer there

    @property
    def exit_status(self) -> int:
        """0 equal, 1 different, 2 nothing could be compared."""
        if self.verdict == Verdict.DIFFERENT or self.score_stands is False:
            return 1
        return 2 if self.verdict == Verdict.NOT_COMPARED else 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"exit_status": self.exit_status}


def verify_run(run: Run) -> Verification:
    """Compute a graded run again in a supervised child and compare."""
    found = Verification(run=str(run.public_id))
    if run.state != Run.State.GRADED or run.report is None:
        found.reasons.append(f"the run is {run.state} and has no report")
        return found
    check_score(run, found)
    try:
        fresh = recomputed_report(run)
    except Unusable as exc:
        found.verdict = Verdict.DIFFERENT
        found.reasons.append(f"the recomputed report could not be used: {exc}")
    except (runner.JobFailed, runner.JobTimedOut) as exc:
        found.reasons.append(f"it could not be computed again: {exc}")
    else:
        compare_reports(run, fresh, found)
    return found


def recomputed_report(run: Run) -> dict[str, Any]:
    report = runner.call(
        "run_job",
        {"lab": run.lab.slug, "params": run.params, "seed": run.seed, "files": input_files(run)},
        limits=limits(),
        on_beat=lambda steps: True,
    )
    return checked_report(run, report)


def compare_reports(run: Run, fresh: dict[str, Any], found: Verification) -> None:
    """Set verdict, comparison, reasons and differences."""
    assert run.report is not None
    obstacles = why_not_bitwise(run, fresh)
    found.comparison = "bands" if obstacles else "bitwise"
    found.reasons += obstacles
    stored = {name: run.report.get(name, ABSENT) for name in COMPARED}
    again = {name: fresh[name] for name in COMPARED}
    strict = list(differences(stored, again))
    if not strict:
        found.verdict = Verdict.BIT_EQUAL
        return
    if not obstacles:
        found.reasons.append("engine, torch and CPU capability are the same: the reports had to be bit-equal")
        note_differences(found, strict)
        return
    loose = list(differences(stored, again, tolerance=EDGE))
    if run.report["engine_version"] != fresh["engine_version"]:
        # Another version may measure more; what it no longer measures, or measures otherwise, is a difference.
        loose = [one for one in loose if one.stored != ABSENT]
    judged_otherwise = list(sheet_differences(run, fresh))
    if loose or judged_otherwise:
        note_differences(found, judged_otherwise + loose)
        return
    found.verdict = Verdict.WITHIN_BANDS
    added = sum(one.stored == ABSENT for one in strict)
    found.reasons.append(
        f"{len(strict) - added} value(s) differ, floats by at most {EDGE:g} of max(1, value); counts are equal"
    )
    if added:
        found.reasons.append(f"{added} value(s) are measured only here")


def note_differences(found: Verification, all_of_them: list[Difference]) -> None:
    found.verdict = Verdict.DIFFERENT
    found.differences = all_of_them[:FIRST]
    found.differences_total = len(all_of_them)


def why_not_bitwise(run: Run, fresh: dict[str, Any]) -> list[str]:
    """A sentence for each thing that decides the last bits and is not as it was."""
    assert run.report is not None
    then, now = run.provenance or {}, fresh["provenance"]
    pairs = [("engine version", run.report.get("engine_version"), fresh["engine_version"])]
    pairs += [(name.replace("_", " "), then.get(name), now.get(name)) for name in ARITHMETIC]
    return [
        f"{name} differs: {was} then, {is_} here" for name, was, is_ in pairs if was is None or was != is_
    ]


def differences(
    stored: Any, again: Any, path: str = "", *, tolerance: float | None = None
) -> Iterator[Difference]:
    """Values that differ. Without a tolerance floats must be the same; with one, also first_event is let go.

    Whole floats compare equal to the integers as which a database may hand them back.
    """
    if isinstance(stored, dict) and isinstance(again, dict):
        for key in [*stored, *(key for key in again if key not in stored)]:
            if tolerance is not None and key == "first_event":
                continue  # it may quote a float
            here = f"{path}.{key}" if path else str(key)
            yield from differences(stored.get(key, ABSENT), again.get(key, ABSENT), here, tolerance=tolerance)
    elif isinstance(stored, list) and isinstance(again, list) and len(stored) == len(again):
        for index, (one, other) in enumerate(zip(stored, again, strict=True)):
            yield from differences(one, other, f"{path}.{index}", tolerance=tolerance)
    elif not equal_values(stored, again, tolerance):
        yield Difference(path, stored, again)


def equal_values(stored: Any, again: Any, tolerance: float | None) -> bool:
    numbers = all(isinstance(value, (int, float)) for value in (stored, again))
    booleans = any(isinstance(value, bool) for value in (stored, again))
    if numbers and not booleans and any(isinstance(value, float) for value in (stored, again)):
        room = 0.0 if tolerance is None else tolerance * max(1.0, abs(float(stored)))
        return abs(float(stored) - float(again)) <= room
    return type(stored) is type(again) and bool(stored == again)


def sheet_differences(run: Run, fresh: dict[str, Any]) -> Iterator[Difference]:
    """Criteria that the present rubric judges differently on the two reports."""
    assert run.report is not None
    try:
        criteria = rubric_of(run)
        if criteria is None:
            return
        then = rubric.grade(run.report["metrics"], criteria, prediction=run.prediction)
        now = rubric.grade(fresh["metrics"], criteria, prediction=run.prediction)
    except (Unmeasured, ValidationError) as exc:
        yield Difference("sheet", "judged", f"cannot be judged: {exc}")
        return
    for one, other in zip(then.criteria, now.criteria, strict=True):
        if one.earned != other.earned:
            yield Difference(f"sheet.{one.name}", str(one.earned), str(other.earned))


def check_score(run: Run, found: Verification) -> None:
    """Judge the stored report again and compare with the stored score."""
    try:
        criteria = rubric_of(run)
        if criteria is None:
            found.score = "a free run has none"
            return
        assert run.report is not None
        again = rubric.grade(run.report["metrics"], criteria, prediction=run.prediction)
    except (Unmeasured, ValidationError) as exc:
        found.score, found.score_stands = f"the stored report cannot be judged: {exc}", False
        return
    if run.rubric_hash not in {"", criteria.fingerprint}:
        found.score_stands = None if adds_up(run) else False
        found.score = (
            f"{run.score} by rubric {run.rubric_hash}; the task has {criteria.fingerprint} now, "
            f"by which it would be {again.score} (see regrade)"
        )
        return
    found.score_stands = run.score == again.score and adds_up(run)
    found.score = f"{run.score} stored, {again.score} from the stored report"


def adds_up(run: Run) -> bool:
    """Whether the stored score is what the stored sheet comes to."""
    try:
        sheet = rubric.Sheet.model_validate(run.sheet)
    except ValidationError:
        return False
    total = sum((row.earned for row in sheet.criteria), Decimal(0))
    return total == sheet.earned and run.score == sheet.score
