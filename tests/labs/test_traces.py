"""Recorded traces in the database and the storage: one file however many hold it, and neither without the other."""

import contextlib
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files import File
from django.core.files.storage import FileSystemStorage, storages
from django.db.models.functions import Now
from django.utils import timezone

from labs import trace_storage, traces
from labs.learner_data import erase_learner, learner_data
from labs.models import Run, Trace, TraceFile
from labs.services import submit_run
from labs.sweeper import tidy_traces
from labs.trace_storage import Unreadable, local_path
from labs.traces import clean_name, give_up, hand_in, offer_trace
from quiz.errors import InvalidInput
from tests.labs.conftest import execute, make_learner, report_for
from tests.labs.test_services import in_parallel
from tests.labs.trace_files import held, names_in, ready, session


@pytest.fixture
def after_commit(django_capture_on_commit_callbacks):
    return lambda: django_capture_on_commit_callbacks(execute=True)


def age(place: Path, hours: int) -> None:
    """As if all files had been stored, or used last, so long ago."""
    past = (timezone.now() - timedelta(hours=hours)).timestamp()
    for path in place.iterdir():
        os.utime(path, (past, past))


# Holding ------------------------------------------------------------------------------------------


def test_two_learners_hold_one_file_each_by_their_own_name(learner, eve, stored):
    mine, hers = held(learner, name="mine"), held(eve, name="hers")
    assert mine.file == hers.file
    assert (mine.name, hers.name) == ("mine", "hers")
    assert len(names_in(stored)) == 1


def test_the_file_goes_with_its_last_holder(learner, eve, stored, after_commit):
    mine, hers = held(learner), held(eve)
    with after_commit():
        give_up(trace=mine)
    assert len(names_in(stored)) == 1
    with after_commit():
        give_up(trace=hers)
    assert (names_in(stored), TraceFile.objects.count()) == ([], 0)


def test_a_file_stays_while_a_run_is_to_read_it_and_while_its_report_is_kept(
    learner,
    traced,
    stored,
    after_commit,
    settings,
    simulation,
):
    mine = ready(learner)
    run = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    with after_commit():
        give_up(trace=mine)
    tidy_traces()
    assert len(names_in(stored)) == 1
    simulation(report_for(run))
    execute(run)
    run.refresh_from_db()
    assert run.state == Run.State.GRADED
    with after_commit():
        tidy_traces()
    assert len(names_in(stored)) == 1
    Run.objects.update(report=None, report_removed_at=Now())
    with after_commit():
        tidy_traces()
    assert (names_in(stored), TraceFile.objects.count()) == ([], 0)


def test_a_run_that_ended_without_a_report_keeps_no_file(learner, traced, after_commit):
    mine = ready(learner)
    submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    Run.objects.update(state=Run.State.CANCELLED)
    with after_commit():
        give_up(trace=mine)
    assert not TraceFile.objects.exists()


def test_what_was_refused_is_checked_once_more_when_it_is_handed_in_again(learner):
    trace = held(learner)
    TraceFile.objects.update(state="refused", reason="memory", tries=3)
    held(learner)
    trace.file.refresh_from_db()
    assert (trace.file.state, trace.file.reason, trace.file.tries) == ("checking", "", 0)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("C:\\tmp\\a.gz", "a.gz"),
        ("../../b", "b"),
        ("  ", "trace"),
        ("a\x00\ud800\nb", "ab"),
        ("x" * 91 + ".jsonl.gz", "x" * 91 + ".jsonl.gz"),
        ("Monday " + "x" * 99 + ".jsonl.gz", "Monday " + "x" * 83 + "….jsonl.gz"),
        ("x" * 98 + " y", "x" * 98 + " y"),
        ("x" * 98 + "  " + "y" * 9, "x" * 98 + "…"),
        ("x" * 200, "x" * 99 + "…"),
    ],
)
def test_a_name_is_kept_without_what_cannot_be_shown(given, kept):
    assert clean_name(given) == kept


# Races --------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_of_many_uploads_of_one_file_at_once_one_is_kept_and_all_hold_it(offering, stored):
    people = [make_learner(f"l{number}", offering) for number in range(4)]
    waiting = list(people)
    lock = threading.Lock()

    def upload() -> None:
        with lock:
            person = waiting.pop()
        hand_in(learner=person, name=person.username, parts=[session()])

    in_parallel(4, upload)
    assert (TraceFile.objects.count(), Trace.objects.count()) == (1, 4)
    assert names_in(stored) == [TraceFile.objects.get().location]


@pytest.mark.django_db(transaction=True)
def test_one_learner_who_sends_a_file_four_times_at_once_holds_it_once(learner, stored):
    in_parallel(4, lambda: hand_in(learner=learner, name="x", parts=[session()]))
    assert (TraceFile.objects.count(), Trace.objects.count()) == (1, 1)
    assert names_in(stored) == [TraceFile.objects.get().location]


@pytest.mark.django_db(transaction=True)
def test_no_more_than_the_quota_is_held_however_many_are_sent_at_once(learner, settings, stored):
    settings.TRACES_PER_LEARNER = 2
    data = [session(str(number)) for number in range(5)]
    lock = threading.Lock()

    def upload() -> None:
        with lock:
            mine = data.pop()
        with contextlib.suppress(traces.QuotaUsed):
            hand_in(learner=learner, name="x", parts=[mine])

    in_parallel(5, upload)
    assert Trace.objects.count() == 2
    assert names_in(stored) == sorted(TraceFile.objects.values_list("location", flat=True))


@pytest.mark.django_db(transaction=True)
def test_handing_in_while_the_last_holder_gives_up_leaves_a_row_with_its_file_or_neither(
    learner,
    offering,
    stored,
):
    eve = make_learner("eve", offering)
    for _ in range(8):
        trace = held(learner)
        turns: list[Any] = [lambda t=trace: give_up(trace=t), lambda: held(eve)]
        lock = threading.Lock()

        def act(turns: list[Any] = turns, lock: threading.Lock = lock) -> None:
            with lock:
                turn = turns.pop()
            turn()

        in_parallel(2, act)
        assert names_in(stored) == [TraceFile.objects.get().location]
        give_up(trace=Trace.objects.get())
        assert (names_in(stored), TraceFile.objects.count()) == ([], 0)


@pytest.mark.django_db(transaction=True)
def test_a_run_submitted_while_its_trace_is_given_up_is_refused_or_keeps_the_file(
    learner,
    traced,
    stored,
):
    for _ in range(6):
        trace = ready(learner)
        digest = trace.file.digest
        turns: list[Any] = [
            lambda t=trace: give_up(trace=t),
            lambda d=digest: submit_run(learner=learner, lab=traced, params={"trace": d}),
        ]
        lock = threading.Lock()

        def act(turns: list[Any] = turns, lock: threading.Lock = lock) -> None:
            with lock:
                turn = turns.pop()
            with contextlib.suppress(InvalidInput):
                turn()

        in_parallel(2, act)
        assert Run.objects.count() == TraceFile.objects.count() == len(names_in(stored))
        Run.objects.all().delete()
        tidy_traces()
        assert names_in(stored) == []


# Storage ------------------------------------------------------------------------------------------


def test_a_process_killed_before_its_row_leaves_a_file_that_the_sweeper_removes(learner, stored, monkeypatch):
    def die(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(traces, "note_holder", die)
    with pytest.raises(KeyboardInterrupt):
        held(learner)
    tidy_traces()
    assert len(names_in(stored)) == 1  # an upload may still be under way
    age(stored, hours=2)
    tidy_traces()
    assert names_in(stored) == []


def test_the_sweeper_leaves_what_a_row_names(learner, stored):
    held(learner)
    age(stored, hours=2)
    tidy_traces()
    assert len(names_in(stored)) == 1


def test_a_file_that_could_not_be_removed_is_removed_by_the_sweeper(
    learner,
    stored,
    monkeypatch,
    after_commit,
):
    def fail(self: Any, name: str) -> None:
        raise PermissionError(name)

    trace = held(learner)
    with monkeypatch.context() as broken:
        broken.setattr(FileSystemStorage, "delete", fail)
        with after_commit():
            give_up(trace=trace)
    assert not TraceFile.objects.exists() and len(names_in(stored)) == 1
    age(stored, hours=2)
    tidy_traces()
    assert names_in(stored) == []


class Elsewhere(FileSystemStorage):
    """A storage that keeps no file on this machine."""

    def path(self, name: str) -> str:
        raise NotImplementedError

    def _open(self, name: str, mode: str = "rb") -> Any:
        return File(Path(self.location, name).open("rb"))

    def _save(self, name: str, content: Any) -> str:
        Path(self.location).mkdir(exist_ok=True)
        Path(self.location, name).write_bytes(content.read())
        return name

    def exists(self, name: str) -> bool:
        return Path(self.location, name).exists()

    def delete(self, name: str) -> None:
        Path(self.location, name).unlink(missing_ok=True)

    def listdir(self, path: str) -> Any:
        return [], names_in(Path(self.location))

    def get_modified_time(self, name: str) -> Any:
        stamp = Path(self.location, name).stat().st_mtime
        return datetime.fromtimestamp(stamp, tz=UTC)


@pytest.fixture
def elsewhere(settings, stored) -> Path:
    backend = {"BACKEND": f"{__name__}.Elsewhere", "OPTIONS": {"location": str(stored)}}
    settings.STORAGES = {**settings.STORAGES, "traces": backend}
    assert isinstance(storages["traces"], Elsewhere)
    return stored


def test_a_storage_without_paths_is_fetched_once_and_its_copy_forgotten_after_a_day(
    learner, elsewhere, settings, monkeypatch
):
    trace = ready(learner)
    copy = local_path(trace.file)
    assert (copy.parent, copy.read_bytes()) == (settings.TRACE_CACHE_DIR, session())
    fetched: list[Any] = []
    monkeypatch.setattr(trace_storage, "fetch", lambda *args: fetched.append(args))
    assert (local_path(trace.file), fetched) == (copy, [])
    tidy_traces()
    assert copy.exists()
    age(settings.TRACE_CACHE_DIR, hours=25)
    tidy_traces()
    assert not copy.exists()


def test_a_copy_that_was_cut_off_is_fetched_again(learner, elsewhere):
    trace = ready(learner)
    local_path(trace.file).write_bytes(b"half")
    assert local_path(trace.file).read_bytes() == session()


@pytest.mark.parametrize("place", ["stored", "elsewhere"])
def test_bytes_that_are_not_those_that_were_stored_are_never_run(learner, request, place):
    folder = request.getfixturevalue(place)
    trace = ready(learner)
    (folder / trace.file.location).write_bytes(b"other")
    with pytest.raises(Unreadable, match="not what was stored"):
        local_path(trace.file)
    (folder / trace.file.location).unlink()
    with pytest.raises(Unreadable):
        local_path(trace.file)


def lose(path: Path) -> None:
    path.unlink()


def cut_off(path: Path) -> None:
    os.truncate(path, 3)


def alter(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("place", ["stored", "elsewhere"])
@pytest.mark.parametrize("happens", [lose, cut_off, alter])
@pytest.mark.parametrize("who", ["learner", "eve"])
def test_a_file_that_the_storage_lost_or_damaged_is_mended_by_whoever_brings_it(request, place, happens, who):
    folder, mine = request.getfixturevalue(place), ready(request.getfixturevalue("learner"))
    happens(folder / mine.file.location)
    with pytest.raises(Unreadable):
        local_path(mine.file)
    held(request.getfixturevalue(who))
    mine.file.refresh_from_db()
    assert (mine.file.state, local_path(mine.file).read_bytes()) == (TraceFile.State.READY, session())
    age(folder, hours=2)
    tidy_traces()
    assert names_in(folder) == [mine.file.location]


@pytest.mark.django_db(transaction=True)
def test_of_many_who_mend_a_file_at_once_one_does(learner, stored):
    file = ready(learner).file
    cut_off(stored / file.location)
    in_parallel(4, lambda: held(learner))
    damaged = file.location
    file.refresh_from_db()
    assert names_in(stored) == sorted([damaged, file.location])
    assert local_path(file).read_bytes() == session()


# A learner's data -----------------------------------------------------------------------------------


def test_traces_are_handed_out_and_erased_with_the_files_that_nobody_else_needs(
    learner,
    eve,
    traced,
    stored,
    after_commit,
):
    shared, own = ready(learner, session("shared"), "shared"), ready(learner, session("own"), "own")
    ready(eve, session("shared"), "hers")
    submit_run(learner=learner, lab=traced, params={"trace": own.file.digest})
    told = learner_data(learner)["traces"]
    assert [(row["name"], row["sha256"]) for row in told] == [
        ("shared", shared.file.digest),
        ("own", own.file.digest),
    ]
    with after_commit():
        gone = erase_learner(learner)
    assert gone["traces"] == 2
    assert [trace.name for trace in Trace.objects.all()] == ["hers"]
    assert names_in(stored) == [shared.file.location]


def test_a_file_that_an_erased_learner_gave_up_before_goes_with_their_run(
    learner,
    traced,
    stored,
    after_commit,
):
    mine = ready(learner)
    submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    give_up(trace=mine)
    with after_commit():
        erase_learner(learner)
    assert names_in(stored) == []


def test_an_offered_trace_outlives_who_handed_it_in(learner, stored, after_commit):
    offer_trace(file=ready(learner).file, name="for all")
    with after_commit():
        erase_learner(learner)
    assert [trace.name for trace in Trace.objects.all()] == ["for all"]
    assert len(names_in(stored)) == 1
