"""Runs that read a recorded trace: which they may, and how a worker has it at hand."""

import json
from dataclasses import replace
from typing import Any

import pytest

from labs import trace_storage
from labs.execution import input_files
from labs.models import Lab, Run, TaskAttempt, TraceFile
from labs.preparation import prepare_attempt
from labs.reflection import vary_run
from labs.services import cancel_run, open_attempt, submit_run
from labs.traces import offer_trace, unneeded
from labs.verification import verify_run
from quiz.errors import InvalidInput
from simworkers import catalog
from simworkers.trace_summary import TraceSummary
from tests.labs.conftest import execute, report_for
from tests.labs.test_api import client_of
from tests.labs.test_services import pointers
from tests.labs.trace_files import SUMMARY, check_trace, draw_from_trace, held, ready, session, zipped


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
