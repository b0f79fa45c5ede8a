"""The supervised child, with real processes: what comes back, and what it may not take."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labs import runner
from labs.runner import JobFailed, JobStopped, JobTimedOut, Limits, WarmServer
from tests.labs.supervision import MIB, ROOMY, SERVER_ARGUMENTS, Ask, all_end, go_on, note_in, read_pids


@pytest.fixture(scope="module")
def shared_server() -> Iterator[WarmServer]:
    server = WarmServer(*SERVER_ARGUMENTS)
    server.start()  # or the first test would wait for it within a limit of its own
    yield server
    server.stop()


@pytest.fixture
def ask(shared_server: WarmServer) -> Ask:
    def ask(
        entry: str,
        *,
        limits: Limits = ROOMY,
        on_beat: runner.Beat = go_on,
        beat_s: float = 0.05,
        **kwargs: Any,
    ) -> Any:
        return runner.call(entry, kwargs, limits=limits, on_beat=on_beat, beat_s=beat_s, server=shared_server)

    return ask


# What comes back


def test_a_result_and_the_progress_on_the_way_arrive(ask: Ask) -> None:
    beats: list[Any] = []
    assert ask("count", steps=10, pause_s=0.2, on_beat=note_in(beats)) == {"steps": 10}
    told = [beat for beat in beats if beat is not None]
    assert told == sorted(told)
    assert told[-1][1] == 10
    assert len(set(told)) >= 3


def test_a_beat_comes_before_any_progress_and_says_none(ask: Ask) -> None:
    beats: list[Any] = []
    ask("count", steps=1, pause_s=0.3, on_beat=note_in(beats))
    assert beats[0] is None


def test_beats_keep_their_interval_however_fast_progress_comes(ask: Ask) -> None:
    beats: list[Any] = []
    ask("count", steps=100, pause_s=0.01, beat_s=0.3, on_beat=note_in(beats))
    # About three on an idle machine; a beat for each report of progress would make a hundred.
    assert 2 <= len(beats) < 50


def test_a_large_result_and_unicode_arrive_whole(ask: Ask) -> None:
    assert len(ask("give", what="large")) == 3_000_000
    assert ask("give", what="text") == "größer\nals"


@pytest.mark.parametrize("what", ["nan", "infinity", "set"])
def test_a_result_that_is_no_strict_json_is_our_fault_and_never_a_result(ask: Ask, what: str) -> None:
    with pytest.raises(JobFailed, match="strict JSON") as failure:
        ask("give", what=what)
    assert failure.value.kind == "crash"


def test_a_refused_call_is_the_callers_mistake(ask: Ask) -> None:
    with pytest.raises(JobFailed, match="num_gpus") as failure:
        ask("die", how="refuse")
    assert failure.value.kind == "invalid"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "ZeroDivisionError: by our mistake"),
        ("exit", "exit status 3"),
        ("sys.exit", "exit status 1"),
        ("SIGKILL", "SIGKILL"),
        ("SIGSEGV", "SIGSEGV"),
        ("SIGTERM", "SIGTERM"),
    ],
)
def test_a_child_that_dies_is_a_crash_that_names_its_cause(ask: Ask, how: str, message: str) -> None:
    with pytest.raises(JobFailed, match=message) as failure:
        ask("die", how=how)
    assert failure.value.kind == "crash"


def test_an_unknown_entry_is_refused(ask: Ask) -> None:
    with pytest.raises(JobFailed, match=r"os\.system") as failure:
        ask("os.system", command="true")
    assert failure.value.kind == "invalid"


def test_a_job_that_prints_does_not_disturb_its_answer(ask: Ask) -> None:
    assert ask("print_much") == "said"


# Limits


@pytest.mark.parametrize("with_torch", [True, False])
def test_a_memory_hog_fails_alone(ask: Ask, with_torch: bool) -> None:
    steady: list[Any] = []
    other = threading.Thread(target=lambda: steady.append(ask("count", steps=20, pause_s=0.05)))
    other.start()
    with pytest.raises(JobFailed) as failure:
        ask("take_memory", mebibytes=1024, with_torch=with_torch, limits=Limits(60, 128 * MIB))
    assert failure.value.kind == "memory"
    other.join()
    assert steady == [{"steps": 20}]


def test_memory_within_the_limit_is_granted_on_top_of_what_is_warm(ask: Ask) -> None:
    assert ask("take_memory", mebibytes=96, with_torch=True, limits=Limits(60, 128 * MIB)) == 12


def test_the_renderer_of_figures_works_under_a_memory_limit_of_one_gibibyte(ask: Ask) -> None:
    assert ask("render", limits=Limits(60, 1024 * MIB)) > 500


def test_a_time_out_kills_the_child_and_the_grandchild(ask: Ask, tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(JobTimedOut):
        ask("hang_with_grandchild", pid_file=str(tmp_path / "pids"), limits=Limits(3.0, 256 * MIB))
    assert time.monotonic() - begun < 3 + runner.OVERDUE_S
    assert all_end(*read_pids(tmp_path / "pids"))


def test_a_beat_that_says_no_kills_the_child_and_the_grandchild(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(JobStopped):
        ask(
            "hang_with_grandchild",
            pid_file=str(tmp_path / "pids"),
            on_beat=lambda seen: not (tmp_path / "pids").exists(),
        )
    assert all_end(*read_pids(tmp_path / "pids"))


def test_a_beat_that_raises_kills_the_child_and_passes(ask: Ask, tmp_path: Path) -> None:
    def lose_the_database(seen: Any) -> bool:
        if (tmp_path / "pids").exists():
            raise OSError("the database has gone")
        return True

    with pytest.raises(OSError, match="the database has gone"):
        ask("hang_with_grandchild", pid_file=str(tmp_path / "pids"), on_beat=lose_the_database)
    assert all_end(*read_pids(tmp_path / "pids"))


def test_what_a_finished_child_left_running_is_killed(ask: Ask) -> None:
    assert all_end(ask("leave_grandchild"))


# What the child is


def test_a_child_knows_no_secret_and_has_one_thread_and_its_own_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("DATABASE_URL", "SECRET_KEY", "BROKER_URL", "AWS_TOKEN", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    server = WarmServer(*SERVER_ARGUMENTS)
    try:
        child = runner.call("describe", {}, limits=ROOMY, on_beat=go_on, server=server)
        assert child["parent"] == server.pid
    finally:
        server.stop()
    assert "hunter2" not in child["environment"].values()
    assert child["environment"]["OMP_NUM_THREADS"] == "1"
    assert (child["threads"], child["torch_threads"]) == (1, 1)
    assert child["group"] == child["pid"]
    assert len(child["files"]) == 5, "stdin, stdout, stderr, the connection, and the listing itself"


def test_two_calls_run_side_by_side(ask: Ask) -> None:
    """Each is told to go on only once the other has made progress: one after the other they would never end."""
    begun = {"one": threading.Event(), "other": threading.Event()}

    def both_have_begun(me: str) -> runner.Beat:
        def beat(progress: Any) -> bool:
            if progress is not None:
                begun[me].set()
            return all(event.wait(20) for event in begun.values()) if begun[me].is_set() else True

        return beat

    kwargs = {"steps": 5, "pause_s": 0.1}
    threads = [
        threading.Thread(target=ask, args=("count",), kwargs={**kwargs, "on_beat": both_have_begun(me)})
        for me in begun
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(event.is_set() for event in begun.values())
