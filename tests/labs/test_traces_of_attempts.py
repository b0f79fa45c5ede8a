"""What was drawn from a trace, or has read one, may read it on: attempts and variations outlive who held the file."""

from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.db.models.functions import Now
from django.utils import timezone
from pydantic import Field

from labs.exploration import explore_path
from labs.learner_data import erase_learner
from labs.models import Lab, Run, TaskAttempt, Trace, TraceFile
from labs.preparation import prepare_attempt
from labs.reflection import vary_run
from labs.services import attempts_left, open_attempt, submit_run
from labs.sweeper import tidy_traces
from labs.traces import give_up
from quiz.errors import Conflict, InvalidInput
from quiz.models import Offering
from simworkers import catalog
from tests.labs.conftest import PREDICTION, execute, make_learner, report_for
from tests.labs.test_services import in_parallel
from tests.labs.trace_files import TracedParams, draw_from_trace, names_in, ready, session

DRAWN = {"params": {"trace": "default"}, "visible": {}, "seed": 1}


@pytest.fixture
def after_commit(django_capture_on_commit_callbacks):
    return lambda: django_capture_on_commit_callbacks(execute=True)


def choose_default(lab: Lab, trace: Any) -> None:
    lab.default_trace = trace
    lab.save()


@pytest.fixture
def drawn(learner, task, traced, offering, simulation):
    """An open attempt, drawn from an offered trace that its author has taken back since."""
    offered = ready(None)
    choose_default(traced, offered)
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    simulation(DRAWN)
    prepare_attempt(attempt.pk)
    choose_default(traced, None)
    give_up(trace=offered)
    return TaskAttempt.objects.get(state=TaskAttempt.State.OPEN)


def submit(attempt: TaskAttempt, **params: Any) -> Run:
    return submit_run(
        learner=attempt.learner,
        lab=attempt.task.lab,
        params=params,
        prediction=PREDICTION,
        task_attempt=attempt,
    )


def test_an_open_attempt_is_submitted_on_its_trace_after_that_was_taken_back(
    drawn, stored, after_commit, simulation
):
    tidy_traces()
    digest = TraceFile.objects.get().digest
    run = submit(drawn)
    assert (run.params, [file.digest for file in run.traces.all()]) == ({"trace": digest}, [digest])
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    assert run.state == Run.State.GRADED
    tidy_traces()
    assert len(names_in(stored)) == 1  # for as long as its report is kept
    Run.objects.update(report=None, report_removed_at=Now())
    with after_commit():
        tidy_traces()
    assert (names_in(stored), TraceFile.objects.count()) == ([], 0)


def test_what_one_attempt_was_drawn_from_is_no_trace_of_another_run(drawn, traced):
    digest = TraceFile.objects.get().digest
    with pytest.raises(InvalidInput, match="none of your traces"):
        submit_run(learner=drawn.learner, lab=traced, params={"trace": digest})


@pytest.mark.parametrize("end", ["not counted", "class closed", "learner erased"])
def test_an_attempt_of_which_no_run_can_come_keeps_no_file(drawn, stored, after_commit, end):
    if end == "not counted":
        TaskAttempt.objects.update(state=TaskAttempt.State.FAILED)
    if end == "class closed":
        Offering.objects.update(closes_at=timezone.now() - timedelta(days=1))
    with after_commit():
        if end == "learner erased":
            erase_learner(drawn.learner)
        else:
            tidy_traces()
    assert (names_in(stored), TraceFile.objects.count()) == ([], 0)


def test_an_attempt_whose_trace_is_gone_does_not_count_and_is_replaced(drawn):
    TraceFile.objects.all().delete()
    with pytest.raises(Conflict, match="does not count; open another"):
        submit(drawn)
    again, is_new = open_attempt(learner=drawn.learner, task=drawn.task, offering=drawn.offering)
    drawn.refresh_from_db()
    assert is_new and again != drawn
    assert drawn.state == TaskAttempt.State.FAILED
    left = attempts_left(learner=drawn.learner, task=drawn.task, offering=drawn.offering)
    assert left == drawn.task.attempts_allowed - 1


def test_a_trace_that_is_taken_back_while_an_attempt_is_drawn_is_not_what_it_opens_with(
    learner, task, traced, offering, simulation
):
    first, second = ready(None, session("first")), ready(None, session("second"))
    choose_default(traced, first)
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)

    def draw(kwargs: Any, on_beat: Any) -> Any:
        choose_default(traced, second)
        give_up(trace=first)
        return DRAWN

    simulation(draw)
    prepare_attempt(attempt.pk)
    attempt.refresh_from_db()
    assert (attempt.state, attempt.instance) == (TaskAttempt.State.PREPARING, None)
    simulation(DRAWN)
    prepare_attempt(attempt.pk)
    attempt.refresh_from_db()
    assert attempt.instance == {"params": {"trace": second.file.digest}, "seed": 1}
    assert [file.digest for file in attempt.traces.all()] == [second.file.digest]


@pytest.mark.django_db(transaction=True)
def test_a_trace_that_is_taken_back_while_attempts_open_is_kept_for_those_that_were_drawn_from_it(
    task, traced, offering, simulation, stored
):
    simulation(DRAWN)
    for turn in range(4):
        person = make_learner(f"l{turn}", offering)
        offered = ready(None)
        choose_default(traced, offered)
        attempt, _ = open_attempt(learner=person, task=task, offering=offering)

        def take_back(offered: Trace = offered) -> None:
            Lab.objects.update(default_trace=None)
            give_up(trace=offered)

        turns: list[Any] = [take_back, lambda pk=attempt.pk: prepare_attempt(pk)]
        assert [one for one in in_parallel(2, lambda turns=turns: turns.pop()()) if one is not None] == []
        attempt.refresh_from_db()
        is_open = attempt.state == TaskAttempt.State.OPEN
        assert TraceFile.objects.count() == len(names_in(stored)) == is_open == attempt.traces.count()
        erase_learner(person)
        assert (TraceFile.objects.count(), names_in(stored)) == (0, [])


@pytest.mark.django_db(transaction=True)
def test_a_learner_is_erased_while_their_attempt_opens(task, traced, offering, simulation, stored):
    simulation(DRAWN)
    for turn in range(4):
        person = make_learner(f"l{turn}", offering)
        offered = ready(None)
        choose_default(traced, offered)
        attempt, _ = open_attempt(learner=person, task=task, offering=offering)
        turns: list[Any] = [lambda who=person: erase_learner(who), lambda pk=attempt.pk: prepare_attempt(pk)]
        found = in_parallel(2, lambda turns=turns: turns.pop()())
        assert [one for one in found if isinstance(one, Exception)] == []
        choose_default(traced, None)
        give_up(trace=offered)
        assert (TraceFile.objects.count(), names_in(stored)) == (0, [])


@pytest.mark.parametrize("draws_from_it", [True, False])
def test_a_damaged_default_trace_closes_no_task(
    learner, task, traced, offering, simulation, stored, monkeypatch, caplog, draws_from_it
):
    if draws_from_it:
        draw_from_trace(monkeypatch, task)
    choose_default(traced, ready(None))
    (stored / TraceFile.objects.get().location).write_bytes(b"half")
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    given: list[Any] = []

    def draw(kwargs: Any, on_beat: Any) -> Any:
        given.append(kwargs["files"])
        return {"params": {}, "visible": {}, "seed": 1}

    simulation(draw)
    prepare_attempt(attempt.pk)
    attempt.refresh_from_db()
    assert (given, attempt.state) == ([{}], TaskAttempt.State.OPEN)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == draws_from_it  # for the operator, where a task lacks it
    said = f"task {task.slug}: the default trace cannot be read, drawn without it: "
    assert all(text.startswith(said) for text in told)


class VariedParams(TracedParams):
    turns: int = Field(1, ge=1, description="Something else to alter.")


def test_a_run_is_varied_on_its_trace_after_that_was_given_up(learner, traced, monkeypatch, simulation):
    job = replace(catalog.get_job(traced.slug), params=VariedParams)
    monkeypatch.setitem(catalog._JOBS, traced.slug, job)
    mine = ready(learner)
    run = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    give_up(trace=mine)
    varied = vary_run(learner=learner, run=run, changes={"turns": 2})
    assert varied.params == {"trace": mine.file.digest, "turns": 2}
    assert list(varied.traces.all()) == [mine.file]


def test_the_upgrade_notes_what_open_attempts_were_drawn_from(drawn):
    drawn.traces.clear()
    import_module("labs.migrations.0012_traces_of_open_attempts").note_traces(apps, None)
    assert [file.digest for file in drawn.traces.all()] == [drawn.instance["params"]["trace"]]


def test_an_attempt_leads_to_a_free_run_for_as_long_as_its_learner_may_read_its_trace(
    learner, task, traced, offering, simulation
):
    offered = ready(None)
    choose_default(traced, offered)
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    simulation(DRAWN)
    prepare_attempt(attempt.pk)
    attempt.refresh_from_db()
    assert explore_path(attempt) is not None
    choose_default(traced, None)
    give_up(trace=offered)
    assert explore_path(attempt) is None
