"""Files beside a run's parameters: named by their hash, found where they are given, from a worker and from a shell."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from simworkers import catalog, inputs
from simworkers.__main__ import main
from simworkers.agents.traffic.traces import read_trace
from simworkers.job_entries import InvalidCall, inspect_trace, prepare_task, run_job
from simworkers.jobs import InvalidParameter, PreparedInstance, Report
from simworkers.trace_summary import summarise
from tests.labs.trace_files import session
from tests.simworkers.tasks import silent

LAB = "moe-eplb"


class Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    trace: str = Field("synthetic", json_schema_extra={"format": "trace"})


def count_requests(params: Params, seed: int, progress: Any, device: str = "cpu") -> Report:
    """A simulation that reads its trace."""
    with inputs.open_input(params.trace) as file:
        requests = summarise(read_trace(file)).requests
    return Report(
        lab=LAB,
        engine_version="0",
        seed=seed,
        params=params.model_dump(),
        metrics={"requests": requests},
        invariants={},
        provenance={},
    )


def prepare(seed: int, progress: Any) -> PreparedInstance:
    with inputs.open_input("default") as file:
        requests = summarise(read_trace(file)).requests
    return PreparedInstance(params={"trace": "default"}, visible={"requests": requests}, seed=seed)


@pytest.fixture
def traced(monkeypatch):
    job = catalog.get_job(LAB)
    kind = replace(next(iter(job.tasks.values())), prepare=f"{__name__}:prepare")
    simulate = f"{__name__}:count_requests"
    job = replace(job, params=Params, simulate=simulate, tasks={kind.name: kind})
    monkeypatch.setitem(catalog._JOBS, LAB, job)
    return kind.name


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(session())
    return path


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_found_by_its_hash_inside_and_not_outside(trace):
    digest = digest_of(trace)
    with inputs.given({digest: trace}):
        with inputs.open_input(digest) as file:
            assert file.read() == session()
        with inputs.given({}), pytest.raises(InvalidParameter, match=r"^trace: no file with the hash"):
            inputs.open_input(digest)
        inputs.open_input(digest).close()
    with pytest.raises(InvalidParameter, match=r"^other: "):
        inputs.open_input(digest, field="other")


def test_the_default_trace_has_the_hash_under_which_it_is_given_too(trace, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"")
    files = {digest_of(other): other, digest_of(trace): trace}
    with inputs.given(files | {"default": trace}):
        assert inputs.default_digest() == digest_of(trace)
    with inputs.given(files):
        assert inputs.default_digest() is None


@pytest.mark.parametrize(
    ("value", "is_one"),
    [("a" * 64, True), ("A" * 64, False), ("a" * 63, False), ("a" * 64 + "\n", False), (None, False)],
)
def test_a_hash_has_64_lower_case_hex_digits(value, is_one):
    assert inputs.is_digest(value) == is_one


def test_a_worker_runs_a_lab_on_the_files_that_it_is_given(traced, trace):
    digest = digest_of(trace)
    report = run_job(LAB, {"trace": digest}, 1, silent, files={digest: str(trace)})
    assert report["metrics"] == {"requests": 2}
    with pytest.raises(InvalidCall, match=r"^trace: no file with the hash"):
        run_job(LAB, {"trace": digest}, 1, silent)


def test_a_task_is_drawn_from_the_default_trace(traced, trace):
    assert prepare_task(LAB, traced, 1, silent, files={"default": str(trace)})["visible"] == {"requests": 2}


def test_a_trace_of_which_nothing_can_be_used_is_an_invalid_call(trace):
    assert inspect_trace(str(trace), silent)["requests"] == 2
    trace.write_bytes(b"nonsense")
    with pytest.raises(InvalidCall, match="line 1: is not JSON"):
        inspect_trace(str(trace), silent)


def test_a_shell_gives_a_file_and_its_hash_stands_in_the_report(traced, trace, capsys):
    assert main(["run", LAB, "--trace", str(trace)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["metrics"], report["params"]) == ({"requests": 2}, {"trace": digest_of(trace)})


def test_a_shell_says_which_lines_of_a_trace_were_left_out(traced, trace, capsys):
    trace.write_bytes(session() + b"nonsense\n")
    assert main(["run", LAB, "--trace", str(trace)]) == 0
    assert "refused: line 2: is not JSON" in capsys.readouterr().err


def refused(capsys, *arguments: str) -> str:
    assert main(["run", LAB, *arguments]) == 2
    return capsys.readouterr().err


def test_a_shell_without_the_file_names_the_field(traced, trace, capsys):
    for named in ("0" * 64, "default"):
        told = refused(capsys, "--set", f"trace={named}")
        assert told == f"trace: no file '{named}' here; hand one in with --trace FILE\n"


def test_a_lab_that_takes_no_trace_says_so(trace, capsys):
    assert refused(capsys, "--trace", str(trace)) == f"trace: {LAB} takes no trace\n"


def test_what_is_no_file_is_no_trace(traced, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert refused(capsys, "--trace", str(tmp_path / "pipe")) == f"trace: {tmp_path}/pipe is no file\n"
    assert refused(capsys, "--trace", "nope") == "trace: cannot read 'nope': No such file or directory\n"
    assert refused(capsys, "--trace", "a\0b").startswith("trace: cannot read")
