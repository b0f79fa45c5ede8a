"""Checking a trace in a supervised child, and whose turn it is."""

import gzip
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models.functions import Now

from labs import runner
from labs.execution import execute_next_run
from labs.models import Run, TraceFile
from labs.scheduling import claim_next as claim_next_run
from labs.scheduling import register_worker
from labs.services import submit_run
from labs.sweeper import sweep
from labs.trace_checks import OURS, check_next_trace, claim_next, send_unheard_checks
from tests.labs.conftest import report_for
from tests.labs.test_api import client_of
from tests.labs.test_services import in_parallel
from tests.labs.trace_files import SUMMARY, check_trace, held, session, zipped
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
