"""Small traces of our own, a storage of the test's own, and a lab that takes a trace."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from labs.models import Lab, LabTask, Trace, TraceFile
from labs.trace_checks import check_held, claim
from labs.traces import hand_in
from quiz.models import Learner
from simworkers import catalog

SUMMARY: dict[str, Any] = {
    "sessions": 1,
    "requests": 2,
    "subagent_requests": 0,
    "block_references": 5,
    "block_sizes": [4],
    "input_tokens": 20,
    "output_tokens": 2,
    "longest_session_s": 1.0,
    "subagent_times": "marker",
    "lines_refused": 0,
    "repairs": 0,
    "notes": [],
}


def session(name: str = "s") -> bytes:
    """One line: two requests of one session."""
    requests = [
        {"t": 0.0, "in": 8, "out": 1, "hash_ids": [1, 2]},
        {"t": 1.0, "in": 12, "out": 1, "hash_ids": [1, 2, 3]},
    ]
    return json.dumps({"id": name, "block_size": 4, "requests": requests}).encode() + b"\n"


def zipped(text: bytes) -> bytes:
    return gzip.compress(text, mtime=0)


@pytest.fixture(autouse=True)
def stored(settings: Any, tmp_path: Path) -> Path:
    """The folder of the test in which traces lie."""
    place = tmp_path / "traces"
    backend = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(place)},
    }
    settings.STORAGES = {**settings.STORAGES, "traces": backend}
    settings.TRACE_CACHE_DIR = tmp_path / "cache"
    return place


def names_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir()) if place.is_dir() else []


def held(learner: Learner | None, data: bytes = session(), name: str = "mine.jsonl") -> Trace:
    """A trace that was handed in, and is being checked."""
    return hand_in(learner=learner, name=name, parts=[data])[0]


def ready(learner: Learner | None, data: bytes = session(), name: str = "mine.jsonl") -> Trace:
    trace = held(learner, data, name)
    TraceFile.objects.filter(pk=trace.file_id).update(state=TraceFile.State.READY, summary=SUMMARY)
    trace.file.refresh_from_db()
    return trace


class TracedParams(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    trace: str = Field(
        "synthetic",
        description="A recorded trace.",
        json_schema_extra={"format": "trace", "unit": ""},
    )


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> Lab:
    """A lab of the catalogue whose parameters may name a trace. It is the balance lab otherwise."""
    job = replace(catalog.get_job(lab.slug), params=TracedParams, expected_seconds=lambda params: 1.0)
    monkeypatch.setitem(catalog._JOBS, lab.slug, job)
    return lab


def draw_from_trace(monkeypatch: pytest.MonkeyPatch, task: LabTask) -> None:
    """As if tasks of this kind were drawn from the lab's default trace."""
    job = task.lab.job
    kind = replace(task.task_kind, draws_from_trace=True)
    monkeypatch.setitem(catalog._JOBS, job.name, replace(job, tasks={**job.tasks, kind.name: kind}))


def check_trace(file_id: int) -> None:
    """Check this file, whoever's turn it is; nothing where another does, or it is gone."""
    if lease := claim(file_id, worker=None):
        check_held(lease)
