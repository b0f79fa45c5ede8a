"""Checking a trace in a supervised child, and runs that read one."""

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models.functions import Now

from labs import runner, trace_storage
from labs.execution import execute_next_run, input_files
from labs.models import Lab, Run, TaskAttempt, TraceFile
from labs.preparation import prepare_attempt
from labs.reflection import vary_run
from labs.scheduling import claim_next as claim_next_run
from labs.scheduling import register_worker
from labs.services import cancel_run, open_attempt, submit_run
from labs.sweeper import sweep
from labs.trace_checks import OURS, check_next_trace, check_trace, claim_next, send_unheard_checks
from labs.traces import offer_trace, unneeded
from labs.verification import verify_run
from quiz.errors import InvalidInput
from simworkers import catalog
from simworkers.trace_summary import TraceSummary
from tests.labs.conftest import execute, make_learner, report_for
from tests.labs.test_api import client_of
from tests.labs.test_services import in_parallel, pointers
from tests.labs.trace_files import SUMMARY, draw_from_trace, held, ready, session, zipped
from tests.simworkers.golden import shared_file


def checked(learner: Any, data: bytes) -> TraceFile:
    """As a worker left it, having had a real child read it."""
    trace = held(learner, data)
    check_trace(trace.file_id)
    trace.file.refresh_from_db()
    return trace.file


# Checking -----------------------------------------------------------------------------------------


def test_a_trace_is_counted_and_what_is_wrong_in_it_is_named(learner):
    file = checked(learner, zipped(session("a") + b"nonsense\n" + session("b")))
    assert (file.state, file.reason, file.lease) == ("ready", "", None)
    summary = file.summary or {}
    assert {name: summary[name] for name in ("sessions", "requests", "block_references")} == {
        "sessions": 2,
        "requests": 4,
        "block_references": 10,
    }
    assert (summary["input_tokens"], summary["output_tokens"], summary["longest_session_s"]) == (40, 4, 1.0)
    assert summary["lines_refused"] == 1
    assert (summary["notes"][0]["line"], summary["notes"][0]["is_refused"]) == (2, True)


def test_no_more_than_fifty_notes_are_kept_and_all_are_counted(learner):
    summary = checked(learner, session() + b"nonsense\n" * 70).summary or {}
    assert (len(summary["notes"]), summary["lines_refused"]) == (50, 70)


def test_all_lines_are_counted_where_the_reader_names_a_thousand(learner):
    summary = checked(learner, session() + b"nonsense\n" * 1070).summary or {}
    assert (len(summary["notes"]), summary["lines_refused"]) == (50, 1070)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"nonsense\n", "line 1: is not JSON"),
        (zipped(session())[:-20], "gzip"),
        (b"\n\n", "there is no line in this trace"),
        (b'{"requests": "\\u0000\\ud800"}\n', "line 1: requests: must be a list"),
        (zipped(b"[" * 100_000), "line 1: is not JSON"),
        (b'{"prompt": "hello", "time": 3}\n', "line 1: is neither a session (block_size, requests;"),
    ],
    ids=["nonsense", "cut gzip", "empty", "no list", "nested", "foreign"],
)
def test_what_is_no_trace_is_refused_with_the_readers_sentence(learner, data, said):
    file = checked(learner, data)
    assert file.state == "refused"
    assert said in file.reason
    assert file.tries == 1


def test_a_bomb_is_refused_without_filling_the_memory(learner, settings):
    settings.TRACE_CHECK_MEMORY_LIMIT_BYTES = 512 * 2**20
    bomb = gzip.compress(b" " * 2**20 * 70, 9)
    assert len(bomb) < 2**17
    assert "a line has more than" in checked(learner, bomb).reason


def test_a_trace_that_needs_more_memory_than_a_check_may_take_is_refused(learner, settings):
    settings.TRACE_CHECK_MEMORY_LIMIT_BYTES = 64 * 2**20
    row = json.dumps({"timestamp": 0, "input_length": 512 * 40, "output_length": 1, "hash_ids": [1] * 40})
    file = checked(learner, zipped((row + "\n").encode() * 200_000))
    assert (file.state, file.reason) == ("refused", "Reading it takes more than 64 MiB of memory.")


def test_a_trace_that_takes_too_long_to_read_is_refused(learner, simulation, settings):
    settings.TRACE_CHECK_TIME_LIMIT_S = 60
    simulation(runner.JobTimedOut("too long"))
    assert checked(learner, session()).reason == "Reading it takes longer than 60 seconds."


def test_a_check_that_crashes_is_tried_three_times(learner, worker, simulation, messages):
    simulation(runner.JobFailed("crash", "the child died"))
    trace = held(learner)
    for tries in (1, 2, 3):
        messages.clear()
        sweep()
        assert messages == [("labs.check_trace", trace.file_id)], tries
        check_trace(trace.file_id)
    trace.file.refresh_from_db()
    assert (trace.file.state, trace.file.reason) == ("refused", OURS)


def test_a_check_whose_worker_died_is_asked_for_again_and_given_up_after_the_last_try(
    learner, worker, messages
):
    trace = held(learner)
    for tries in (1, 2, 3):
        TraceFile.objects.update(
            tries=tries, lease=trace.public_id, lease_expires_at=Now() - timedelta(seconds=1)
        )
        TraceFile.objects.update(sent_at=Now() - timedelta(hours=1))
        messages.clear()
        sweep()
        assert messages == [("labs.check_trace", trace.file_id)]
    check_trace(trace.file_id)
    trace.file.refresh_from_db()
    assert trace.file.state == "refused"
    assert "interrupted too often" in trace.file.reason


def test_a_check_that_is_under_way_is_neither_sent_nor_begun_again(learner, worker, simulation, messages):
    simulation(lambda kwargs, on_beat: pytest.fail("checked twice"))
    trace = held(learner)
    TraceFile.objects.update(lease=trace.public_id, lease_expires_at=Now() + timedelta(60))
    sweep()
    check_trace(trace.file_id)
    assert messages == []


def test_a_worker_that_lost_its_lease_writes_nothing(learner, simulation):
    def lose(kwargs: Any, on_beat: Any) -> Any:
        TraceFile.objects.update(lease="00000000-0000-4000-8000-000000000000")
        assert not on_beat(None)
        return SUMMARY

    simulation(lose)
    assert checked(learner, session()).state == "checking"


def test_a_file_that_was_removed_before_its_check_is_no_error(learner):
    trace = held(learner)
    trace.delete()
    TraceFile.objects.all().delete()
    check_trace(trace.file_id)


def test_the_recorded_sessions_are_handed_in_over_rest_and_counted(learner):
    data = shared_file("traces/agent_sessions.jsonl.gz").read_bytes()
    api = client_of(learner)
    sent = api.post("/api/v1/traces/?name=sessions", data, content_type="application/gzip")
    assert sent.status_code == 202
    check_trace(TraceFile.objects.get().pk)
    shown = api.get(sent["Location"]).json()
    assert shown["state"] == "ready"
    counted = shown["summary"]
    # As the file's own description says: 30 sessions, 1,179 requests, 99 million input tokens.
    assert (counted["sessions"], counted["requests"], counted["block_sizes"]) == (30, 1179, [64])
    assert round(counted["input_tokens"], -6) == 99_000_000


# Whose turn it is ---------------------------------------------------------------------------------


@pytest.fixture
def eve(offering):
    return make_learner("eve", offering)


def under_way() -> list[int]:
    return sorted(TraceFile.objects.exclude(lease=None).values_list("pk", flat=True))


def end_checks() -> None:
    TraceFile.objects.exclude(lease=None).update(state=TraceFile.State.REFUSED, lease=None, checked_at=Now())


def test_of_one_learners_files_one_is_checked_at_a_time_the_oldest_first(learner, eve):
    first, *_ = [held(learner, session(str(n))) for n in range(3)]
    hers = held(eve, session("hers"))
    worker = register_worker(slots=8)
    while claim_next(worker):
        pass
    assert under_way() == [first.file_id, hers.file_id]


def test_twenty_files_of_one_learner_delay_anothers_by_one_check(learner, eve, worker):
    for number in range(20):
        held(learner, session(str(number)))
    claim_next(worker)
    hers = held(eve, session("hers"))
    end_checks()
    claim_next(worker)
    assert under_way() == [hers.file_id]


def test_a_file_that_another_holds_too_does_not_wait_for_their_other_checks(learner, eve):
    held(learner, session("before"))
    both = held(learner, session("both"))
    held(eve, session("both"))
    worker = register_worker(slots=8)
    assert claim_next(worker) and claim_next(worker)
    assert both.file_id in under_way()


def test_a_worker_with_two_slots_keeps_one_free_of_checks_and_long_runs(learner, eve, worker, lab):
    held(learner)
    held(eve, session("hers"))
    claim_next(worker)
    assert claim_next(worker) is None
    run = submit_run(learner=learner, lab=lab, params={})
    Run.objects.filter(pk=run.pk).update(is_long=True)
    assert claim_next_run(worker) is None
    Run.objects.filter(pk=run.pk).update(is_long=False)
    assert claim_next_run(worker) == run


def test_a_long_run_leaves_no_slot_of_two_for_a_check(learner, eve, worker, lab):
    run = submit_run(learner=learner, lab=lab, params={})
    Run.objects.filter(pk=run.pk).update(is_long=True)
    assert claim_next_run(worker) == run
    held(eve)
    assert claim_next(worker) is None


def test_a_worker_with_one_slot_checks_too(learner):
    held(learner)
    assert claim_next(register_worker(slots=1))


@pytest.mark.django_db(transaction=True)
def test_two_slots_of_a_worker_never_both_check_files_of_one_learner(learner):
    for number in range(3):
        held(learner, session(str(number)))
    worker = register_worker(slots=8)
    taken = in_parallel(6, lambda: claim_next(worker))
    assert sum(isinstance(lease, UUID) for lease in taken) == 1


def test_after_a_check_a_waiting_one_is_woken(learner, worker, simulation, messages):
    simulation(SUMMARY)
    first, second = held(learner), held(learner, session("b"))
    messages.clear()
    check_next_trace(worker)
    first.file.refresh_from_db()
    assert first.file.state == "ready"
    assert messages == [("labs.check_trace", second.file_id)]


def test_after_a_long_run_a_waiting_check_is_woken(learner, worker, lab, simulation, messages):
    run = submit_run(learner=learner, lab=lab, params={})
    Run.objects.filter(pk=run.pk).update(is_long=True)
    waiting = held(learner)
    messages.clear()
    simulation(report_for(run))
    execute_next_run(worker)
    assert ("labs.check_trace", waiting.file_id) in messages


def test_checks_are_sent_again_no_more_than_there_are_free_slots(learner, eve, messages):
    files = [held(who, session(str(n))).file_id for n in range(3) for who in (learner, eve)]
    TraceFile.objects.update(sent_at=None)
    messages.clear()
    send_unheard_checks(1)
    assert messages == [("labs.check_trace", files[0])]
    send_unheard_checks(1)  # it is on its way
    assert len(messages) == 1


# Runs ---------------------------------------------------------------------------------------------


def refusal(learner: Any, lab: Lab, trace: str) -> tuple[list[str], str]:
    with pytest.raises(InvalidInput) as found:
        submit_run(learner=learner, lab=lab, params={"trace": trace})
    return pointers(found), found.value.errors[0][1]


def test_only_a_ready_trace_of_ones_own_or_an_offered_one_is_run(learner, eve, traced):
    hers = ready(eve).file.digest
    refused = held(learner, session("c")).file
    TraceFile.objects.filter(pk=refused.pk).update(state="refused")
    said = "is none of your traces, nor one that is offered"
    assert refusal(learner, traced, hers) == (["/params/trace"], said)
    assert refusal(learner, traced, "0" * 64) == (["/params/trace"], said)
    assert refusal(learner, traced, refused.digest)[1] == "was refused when it was checked"
    assert refusal(learner, traced, "default")[1] == "this lab has no default trace"
    assert not Run.objects.exists()


def test_what_a_lab_finds_wrong_in_a_traces_summary_is_refused_before_a_run_is_queued(
    learner, traced, monkeypatch
):
    def fault(params: Any, summary: TraceSummary) -> tuple[str, str]:
        return "trace", f"{params.trace[:4]} has {summary.requests} requests"

    monkeypatch.setitem(catalog._JOBS, traced.slug, replace(traced.job, trace_fault=fault))
    digest = ready(learner).file.digest
    assert refusal(learner, traced, digest) == (["/params/trace"], f"{digest[:4]} has 2 requests")
    assert not Run.objects.exists()


def test_a_lab_is_asked_of_no_trace_where_none_is_named(learner, traced, monkeypatch):
    asked = replace(traced.job, trace_fault=lambda params, summary: pytest.fail("asked of nothing"))
    monkeypatch.setitem(catalog._JOBS, traced.slug, asked)
    assert submit_run(learner=learner, lab=traced, params={})


def test_default_is_replaced_by_the_hash_so_that_the_run_stays_what_it_was(learner, eve, traced):
    first = offer_trace(file=ready(eve).file, name="first")
    traced.default_trace = first
    traced.save()
    run = submit_run(learner=learner, lab=traced, params={"trace": "default"})
    assert run.params == {"trace": first.file.digest}
    assert [file.digest for file in run.traces.all()] == [first.file.digest]


def test_the_default_is_no_variation_of_a_run_that_read_it_under_its_hash(learner, eve, traced, simulation):
    first = offer_trace(file=ready(eve).file, name="first")
    traced.default_trace = first
    traced.save()
    run = submit_run(learner=learner, lab=traced, params={"trace": "default"})
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    with pytest.raises(InvalidInput) as found:
        vary_run(learner=learner, run=run, changes={"trace": "default"})
    assert pointers(found) == ["/params/trace"]
    assert vary_run(learner=learner, run=run, changes={"trace": "synthetic"}).traces.count() == 0


def test_a_synthetic_run_reads_no_file(learner, traced, simulation):
    run = submit_run(learner=learner, lab=traced, params={})
    assert (run.params, run.traces.count(), input_files(run)) == ({"trace": "synthetic"}, 0, {})


def test_a_worker_hands_the_file_to_the_child_by_its_hash(learner, traced, simulation, stored):
    mine = ready(learner)
    run = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    given: list[Any] = []

    def simulate(kwargs: Any, on_beat: Any) -> Any:
        given.append(kwargs["files"])
        return report_for(run)

    simulation(simulate)
    execute(run)
    run.refresh_from_db()
    assert run.state == Run.State.GRADED
    verify_run(run)
    assert given == [{mine.file.digest: str(stored / mine.file.location)}] * 2


def test_a_run_whose_file_cannot_be_had_is_our_failure_and_tried_again(learner, traced, simulation, stored):
    mine = ready(learner)
    run = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    simulation(lambda kwargs, on_beat: pytest.fail("ran without its file"))
    (stored / mine.file.location).write_bytes(b"other")
    states = []
    for _ in range(3):
        execute(run)
        run.refresh_from_db()
        states.append(run.state)
    assert states == ["queued", "queued", "failed"]
    assert run.reason.startswith(
        "The trace that it reads could not be fetched. That is our fault, not yours."
    )
    assert mine.file.location in run.fault


def test_a_verification_without_the_file_says_that_it_could_not_compare(learner, traced, simulation, stored):
    mine = ready(learner)
    run = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    simulation(report_for(run))
    execute(run)
    (stored / mine.file.location).unlink()
    found = verify_run(Run.objects.get())
    assert found.exit_status == 2
    assert "could not be computed again" in found.reasons[0]


def test_a_task_is_drawn_with_the_labs_default_trace_and_keeps_it(
    learner, eve, task, traced, offering, simulation, stored, monkeypatch
):
    draw_from_trace(monkeypatch, task)
    first = offer_trace(file=ready(eve).file, name="first")
    traced.default_trace = first
    traced.save()
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    given: list[Any] = []

    def draw(kwargs: Any, on_beat: Any) -> Any:
        given.append(kwargs["files"])
        return {"params": {"trace": "default"}, "visible": {}, "seed": 1}

    simulation(draw)
    prepare_attempt(attempt.pk)
    path = str(stored / first.file.location)
    assert given == [{first.file.digest: path, "default": path}]
    drawn = TaskAttempt.objects.get().instance
    assert drawn is not None and drawn["params"] == {"trace": first.file.digest}


def test_an_equal_report_is_reused_without_the_file(learner, eve, traced, simulation, stored, monkeypatch):
    mine = ready(learner)
    run = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    simulation(report_for(run))
    execute(run)
    again = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    monkeypatch.setattr(trace_storage, "local_path", lambda file: pytest.fail("fetched for nothing"))
    execute(again)
    again.refresh_from_db()
    assert (again.state, again.reused) == (Run.State.GRADED, True)


def test_a_cancelled_run_reads_its_file_no_more(learner, traced):
    mine = ready(learner)
    cancel_run(run=submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest}))
    mine.delete()
    assert list(unneeded()) == [mine.file]


def test_a_run_on_a_recorded_trace_is_a_long_one(learner, lab):
    agents, _ = Lab.objects.get_or_create(slug="agent-routing", defaults={"title": "Agents"})
    file = ready(learner).file
    params = {"trace": file.digest, "sessions": 1, "compare_policies": False}
    assert submit_run(learner=learner, lab=agents, params=params).is_long
    assert not submit_run(learner=learner, lab=agents, params=params | {"trace": "synthetic"}).is_long


# The lab that takes traces ------------------------------------------------------------------------


def recorded(turns: int = 6) -> bytes:
    """One session of an agent whose context grows by a block of 64 tokens a turn."""
    requests = [
        {"t": 5.0 * turn, "in": 64 * (turn + 10), "out": 20, "hash_ids": list(range(turn + 10))}
        for turn in range(turns)
    ]
    return zipped(json.dumps({"id": "s", "block_size": 64, "requests": requests}).encode())


@pytest.mark.parametrize(
    ("counted", "params", "pointer"),
    [
        ({"block_sizes": [16, 64]}, {}, "#/params/trace"),
        ({"has_sessions": False}, {"search_load": True}, "#/params/search_load"),
        ({"has_sessions": False, "requests": 30_001}, {}, "#/params/trace"),
        ({"requests": 30_001}, {}, "#/params/sessions"),
    ],
)
def test_a_trace_that_the_agent_lab_cannot_play_is_refused_at_the_field_over_rest(
    learner, lab, counted, params, pointer
):
    file = ready(learner).file
    TraceFile.objects.filter(pk=file.pk).update(summary=SUMMARY | counted)
    body = {"params": params | {"trace": file.digest}}
    answer = client_of(learner).post("/api/v1/labs/agent-routing/runs/", body, format="json")
    assert (answer.status_code, [error["pointer"] for error in answer.json()["errors"]]) == (400, [pointer])
    assert not Run.objects.exists()


def test_a_trace_handed_in_over_rest_is_run_by_the_agent_lab_and_computed_again_bit_for_bit(learner):
    lab, _ = Lab.objects.get_or_create(slug="agent-routing", defaults={"title": "Agents"})
    api = client_of(learner)
    sent = api.post("/api/v1/traces/", recorded(), content_type="application/gzip").json()
    check_trace(TraceFile.objects.get().pk)
    submitted = api.post(
        f"/api/v1/labs/{lab.slug}/runs/", {"params": {"trace": sent["sha256"]}, "seed": 3}, format="json"
    )
    assert submitted.status_code == 202
    run = Run.objects.get()
    execute(run)
    shown = api.get(submitted["Location"]).json()
    assert (shown["state"], shown["params"]["trace"]) == ("graded", sent["sha256"])
    assert (shown["metrics"]["sessions"], shown["metrics"]["requests"]) == (1, 6)
    run.refresh_from_db()
    assert verify_run(run).verdict == "bit-equal"
