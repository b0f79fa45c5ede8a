"""How equal a run comes out when it is computed again, and why not."""

import copy
import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from labs import runner
from labs.models import Run
from labs.services import submit_run
from labs.verification import Verdict, differences, verify_run
from tests.labs.conftest import ARITHMETIC, execute, report_for
from tests.labs.test_services import submit


@pytest.fixture
def run(attempt, simulation) -> Run:
    """A graded run; the simulation goes on handing back an equal report."""
    run = submit(attempt)
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    return run


def refuse_writes(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    assert sql.lstrip().split()[0] in {"SELECT", "SAVEPOINT", "RELEASE"}, sql
    return execute(sql, params, many, context)


def command(*arguments: Any) -> tuple[int, str]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("verify_run", *arguments, stdout=out)
    return int(ended.value.code or 0), out.getvalue()


def test_an_equal_report_of_the_same_arithmetic_is_bit_equal_and_its_score_stands(run):
    with connection.execute_wrapper(refuse_writes):
        found = verify_run(run)
    assert (found.verdict, found.comparison, found.exit_status) == (Verdict.BIT_EQUAL, "bitwise", 0)
    assert found.score_stands
    assert "0.5250" in found.score


def test_one_bit_under_the_same_arithmetic_is_different_and_named(run, simulation):
    simulation(report_for(run, max_over_mean_mean=1.5000000000000002))
    found = verify_run(run)
    assert (found.verdict, found.exit_status) == (Verdict.DIFFERENT, 1)
    assert "had to be bit-equal" in found.reasons[0]
    assert str(found.differences[0]) == (
        "metrics.max_over_mean_mean: stored 1.5, recomputed 1.5000000000000002"
    )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("torch", "2.11.0", "torch differs: 2.13.0 then, 2.11.0 here"),
        ("cpu_capability", "DEFAULT", "cpu capability differs: AVX2 then, DEFAULT here"),
    ],
)
def test_last_bits_under_another_arithmetic_are_within_bands(run, simulation, name, value, reason):
    report = report_for(run, max_over_mean_mean=1.5000000000000002)
    simulation(report | {"provenance": ARITHMETIC | {name: value}})
    found = verify_run(run)
    assert (found.verdict, found.comparison, found.exit_status) == (Verdict.WITHIN_BANDS, "bands", 0)
    assert found.reasons[0] == reason
    assert "1 value(s) differ" in found.reasons[1]


def test_a_count_that_differs_is_different_under_any_arithmetic(run, simulation):
    report = report_for(run, routed_copies=1)
    simulation(report | {"provenance": ARITHMETIC | {"torch": "2.11.0"}})
    found = verify_run(run)
    assert found.verdict == Verdict.DIFFERENT
    assert [one.path for one in found.differences] == ["metrics.routed_copies"]


def test_a_float_beyond_the_tolerance_is_different_and_so_is_what_it_earns(run, simulation):
    report = report_for(run, max_over_mean_mean=1.4)
    simulation(report | {"provenance": ARITHMETIC | {"torch": "2.11.0"}})
    found = verify_run(run)
    assert found.verdict == Verdict.DIFFERENT
    assert [one.path for one in found.differences] == ["sheet.balance", "metrics.max_over_mean_mean"]


def test_another_engine_version_is_said_and_may_measure_more(run, simulation):
    Run.objects.filter(pk=run.pk).update(report=run.report | {"engine_version": "older"})
    run.refresh_from_db()
    del run.report["metrics"]["speedup"]
    found = verify_run(run)
    assert found.verdict == Verdict.WITHIN_BANDS
    assert found.reasons[0].startswith("engine version differs: older then")
    assert found.reasons[-1] == "1 value(s) are measured only here"


def test_another_engine_version_that_no_longer_measures_something_is_different(run):
    run.report = run.report | {"engine_version": "older"}
    run.report["metrics"]["gone"] = 3
    found = verify_run(run)
    assert found.verdict == Verdict.DIFFERENT
    assert str(found.differences[0]) == "metrics.gone: stored 3, recomputed 'absent'"


def test_a_stored_score_that_its_report_does_not_earn_is_found(run):
    Run.objects.filter(pk=run.pk).update(score="0.9000")
    status, said = command(run.pk)
    assert status == 1
    assert "0.9000 stored, 0.5250 from the stored report DOES NOT STAND" in said


def test_a_score_by_a_rubric_that_has_changed_since_is_no_difference(run, task):
    task.rubric["criteria"][0]["points"] = "5.00"
    task.save()
    found = verify_run(run)
    assert (found.verdict, found.score_stands, found.exit_status) == (Verdict.BIT_EQUAL, None, 0)
    assert "see regrade" in found.score


def test_a_forged_score_is_found_also_after_the_rubric_has_changed(run, task):
    task.rubric["criteria"][0]["points"] = "5.00"
    task.save()
    run.score = "0.9000"
    assert verify_run(run).exit_status == 1


@pytest.mark.parametrize(
    "failure", [runner.JobFailed("crash", "killed by SIGKILL"), runner.JobTimedOut("too long")]
)
def test_what_cannot_be_computed_again_is_not_called_different(run, simulation, failure):
    simulation(failure)
    found = verify_run(run)
    assert (found.verdict, found.exit_status) == (Verdict.NOT_COMPARED, 2)


def test_a_run_without_a_report_is_not_compared(lab, learner):
    run = submit_run(learner=learner, lab=lab, params={})
    status, said = command(str(run.public_id))
    assert status == 2
    assert "the run is queued and has no report" in said


def test_the_command_takes_a_public_id_and_prints_json(run):
    status, said = command(str(run.public_id), "--json")
    document = json.loads(said)
    assert status == 0
    assert document["counts"] == {"bit-equal": 1}
    assert document["runs"][0]["run"] == str(run.public_id)


def test_all_graded_runs_are_taken_newest_first_up_to_the_limit(run, lab, learner, simulation):
    free = submit_run(learner=learner, lab=lab, params={}, seed=5)
    simulation(report_for(free))
    execute(free)
    status, said = command("--all-graded", "--limit", "1", "--json")
    (only,) = json.loads(said)["runs"]
    assert (status, only["run"], only["score"]) == (0, str(free.public_id), "a free run has none")


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["99999"], [], ["1", "--all-graded"], ["1", "--limit", "3"]]
)
def test_what_names_no_run_is_refused_with_exit_2(db, arguments):
    with pytest.raises(CommandError) as refused:
        call_command("verify_run", *arguments)
    assert refused.value.returncode == 2


@pytest.fixture
def real_run(lab, learner):
    """Computed by the real simulation, in its smallest scene."""
    small = {"tokens_per_step": 256, "num_steps": 4}
    run = submit_run(learner=learner, lab=lab, params=small, seed=3)
    execute(run)
    run.refresh_from_db()
    assert run.state == Run.State.GRADED, run.reason
    return run


@pytest.mark.slow
def test_the_real_simulation_is_bit_equal_here_and_equal_on_an_older_instruction_set(real_run, monkeypatch):
    assert verify_run(real_run).verdict == Verdict.BIT_EQUAL
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    older = runner.WarmServer()
    monkeypatch.setattr("labs.runner.SERVER", older)
    try:
        found = verify_run(real_run)
    finally:
        older.stop()
    assert found.comparison == "bands"
    assert found.reasons[0].startswith("cpu capability differs:")
    assert found.verdict in {Verdict.BIT_EQUAL, Verdict.WITHIN_BANDS}, found.differences


def test_a_whole_float_that_a_database_hands_back_as_an_integer_is_the_same():
    assert list(differences({"flops": 10**23, "share": 2}, {"flops": 1e23, "share": 2.0})) == []


def test_a_flag_is_no_number_and_a_shorter_list_is_a_difference():
    stored = {"flag": True, "loads": [1, 2]}
    again = copy.deepcopy(stored) | {"flag": 1, "loads": [1]}
    assert [one.path for one in differences(stored, again)] == ["flag", "loads"]
